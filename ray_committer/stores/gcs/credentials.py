"""Signed headers for Google Cloud Storage, with the credentials that gcsfs finds.

gcsfs supports service accounts, user logins, metadata servers and anonymous access; its storage options
work here unchanged. Only its credentials are used.
"""

from __future__ import annotations

import errno
import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import google.auth.exceptions
import requests
from gcsfs.core import GCSFileSystem  # not gcsfs.GCSFileSystem, which asks for the layout by gRPC
from gcsfs.retry import HttpError, NonRetryableError

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.version import __version__

FRESH_SECONDS = 60.0
"""How long signed headers are reused; gcsfs renews a token five minutes before it expires."""

_UNANSWERED = (google.auth.exceptions.TransportError, requests.RequestException)
_REFUSED = (google.auth.exceptions.GoogleAuthError, HttpError, NonRetryableError, ValueError)
_HEADERS = {
    "User-Agent": f"ray-committer/{__version__}",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


class GcsCredentials:
    """The address and the payer of requests, and the headers that sign them; used by many threads."""

    def __init__(
        self,
        bucket: str,
        storage_options: Mapping[str, Any],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _refuse_missing_key_file(bucket, storage_options.get("token"))
        try:
            # Not from fsspec's cache of instances, which would keep the credentials for ever.
            filesystem = GCSFileSystem(**storage_options, skip_instance_cache=True)
        except (*_UNANSWERED, *_REFUSED, OSError, LookupError, TypeError) as e:
            raise StoreRefusedError(
                f"gs://{bucket}: gcsfs finds no credentials with these storage options "
                f"({type(e).__name__})",
                "see `token` in its documentation",
            ) from None  # its text may hold the token
        self.base = filesystem.base.removesuffix("/storage/v1/")
        self.user_project = _user_project(filesystem)
        self._credentials = filesystem.credentials
        self._clock = clock
        self._signed: tuple[float, Mapping[str, str]] = (float("-inf"), {})

    def headers(self, path: str) -> Mapping[str, str]:
        """Return the headers of a request, which must not be changed; errors name `path`."""
        fresh_until, headers = self._signed
        now = self._clock()
        if now < fresh_until:
            return headers
        fresh = dict(_HEADERS)
        try:
            self._credentials.apply(fresh)
        except _UNANSWERED as e:
            raise StoreUnavailableError(path, "Google's servers issued no token") from e
        except _REFUSED as e:
            raise PermissionError(
                errno.EACCES, f"Google issues no token for these credentials ({e}); renew them", path
            ) from e
        self._signed = now + FRESH_SECONDS, fresh
        return fresh


def _refuse_missing_key_file(bucket: str, token: Any) -> None:
    """Refuse a key file that is not there, because gcsfs would send its path as a token."""
    if isinstance(token, str) and token.startswith("/") and not os.path.exists(token):
        raise StoreRefusedError(
            f"gs://{bucket}: the key file {token} is not on {platform.node()}", "copy it to all nodes"
        )


def _user_project(filesystem: GCSFileSystem) -> str | None:
    """Return the project that pays for requests to a bucket whose owner does not."""
    if not filesystem.requester_pays:
        return None
    own = filesystem.requester_pays
    return own if isinstance(own, str) else str(filesystem.project)
