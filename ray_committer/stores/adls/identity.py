"""Azure identities that each process creates for itself, from a class name and arguments.

An object of ``azure.identity`` holds locks and connections and cannot be sent to another process.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AzureIdentity:
    """A credential of ``azure.identity`` by its class and arguments, which may be secret; pickles. The
    credential is created anew for each token; the caller keeps the token until it expires."""

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        """Return a token, as ``azure.core.credentials.TokenCredential`` does. `PermissionError` if a
        file of the credential is missing: ``FileNotFoundError`` would mean one of the store."""
        import azure.identity

        try:
            with getattr(azure.identity, self.kind)(**self.arguments) as credential:
                return credential.get_token(*scopes, **kwargs)
        except OSError as e:
            text = (
                f"{e.filename}, a file that {self.kind} needs, cannot be read on {platform.node()} "
                f"({e.strerror})"
            )
            raise PermissionError(errno.EACCES, text) from e

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""
