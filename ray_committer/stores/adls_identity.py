"""Identities of Azure that are made where they are used: what crosses to a worker are their names.

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
    """A credential of ``azure.identity`` by its class and arguments, which may be secret; pickles.

    It is made anew for each token, which who asks keeps until it expires.
    """

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        """A token, as ``azure.core.credentials.TokenCredential`` gives it.

        `PermissionError` if a file of it is missing, which must not read as a missing file of the store.
        """
        import azure.identity

        try:
            with getattr(azure.identity, self.kind)(**self.arguments) as credential:
                return credential.get_token(*scopes, **kwargs)
        except OSError as e:
            text = f"a file of {self.kind} cannot be read on {platform.node()} ({e.strerror})"
            raise PermissionError(errno.EACCES, text, e.filename) from e

    async def close(self) -> None:
        """Nothing is kept open."""
