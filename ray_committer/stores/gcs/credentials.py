"""Signed headers for Google Cloud Storage, with the credentials that gcsfs finds.

gcsfs supports service accounts, user logins, metadata servers and anonymous access; its storage options
work here unchanged. Only its credentials are used.
"""

from __future__ import annotations

import errno
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import google.auth.exceptions
import requests
from gcsfs.core import GCSFileSystem  # not gcsfs.GCSFileSystem, which asks for the layout by gRPC
from gcsfs.retry import HttpError, NonRetryableError
from google.auth.transport.requests import Request

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.stores.addresses import server_address
from ray_committer.stores.answers import refuse_lasting
from ray_committer.version import __version__

FRESH_SECONDS = 60.0
"""How long signed headers are reused; gcsfs renews a token five minutes before it expires."""

_UNANSWERED = (google.auth.exceptions.TransportError, requests.RequestException)
_REFUSED = (google.auth.exceptions.GoogleAuthError, HttpError, NonRetryableError)
_MISREAD = (AttributeError, LookupError, TypeError, ValueError)
"""What Google's client raises for an answer that is not its server's, such as a login page."""
_NOT_METADATA = "Unexpected response from metadata server"
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
        # Not from fsspec's cache of instances, which would keep the credentials for ever.
        options = {**storage_options, "skip_instance_cache": True}
        try:
            filesystem = GCSFileSystem(**options)
        except (*_UNANSWERED, *_REFUSED, *_MISREAD, OSError) as e:
            refuse_lasting(e, "/")
            if cause := _unanswered(e):
                raise _no_token("/", type(cause).__name__) from None
            raise StoreRefusedError(
                f"gs://{bucket}: gcsfs finds no credentials with these storage options "
                f"({type(e).__name__})",
                "see `token` in its documentation",
            ) from None  # its text may hold the token
        self.base = filesystem.base.removesuffix("/storage/v1/")
        named = "the storage option endpoint_url, or STORAGE_EMULATOR_HOST,"
        server_address(f"gs://{bucket}", named, self.base, path=True)
        payer = filesystem.requester_pays
        project = payer if isinstance(payer, str) else str(filesystem.project)
        self.user_project = project if payer else None
        self._credentials = filesystem.credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._signed: tuple[float, Mapping[str, str]] = (float("-inf"), {})
        self.shown = _shown(self._credentials.credentials)

    def headers(self, path: str) -> Mapping[str, str]:
        """Return the headers of a request, which must not be changed; errors name `path`."""
        fresh_until, headers = self._signed
        if self._clock() < fresh_until:
            return headers
        return self._sign(self._credentials.apply, path)

    def renewed(self, refused: Mapping[str, str], path: str) -> Mapping[str, str] | None:
        """Return headers with another token than in `refused`; None if these credentials have only one.
        A token is fetched once for all threads."""
        token_source = self._credentials.credentials
        if token_source is None:
            return None
        with self._lock:
            _, headers = self._signed
            # Another thread was refused with the same token and has renewed it already.
            if _token_of(headers) != _token_of(refused):
                return headers

            def refresh(fresh: dict[str, str]) -> None:
                # A session of its own: a session of requests is not made for several threads.
                with requests.Session() as session:
                    token_source.refresh(Request(session))
                token_source.apply(fresh)

            try:
                return self._sign(refresh, path)
            except PermissionError:
                return None

    def _sign(self, apply: Callable[[dict[str, str]], None], path: str) -> Mapping[str, str]:
        now, fresh = self._clock(), dict(_HEADERS)
        try:
            apply(fresh)
        except (*_UNANSWERED, *_REFUSED, *_MISREAD) as e:
            refuse_lasting(e, path)
            if (cause := _unanswered(e)) or isinstance(e, _MISREAD):
                why = str(cause) if isinstance(cause, _UNANSWERED) else "an answer that holds none"
                raise _no_token(path, why) from e
            raise PermissionError(
                errno.EACCES, f"Google issues no token for these credentials ({e}); renew them", path
            ) from e
        self._signed = now + FRESH_SECONDS, fresh
        return fresh


def _shown(credentials: Any) -> str:
    """Name the credentials in an error."""
    if credentials is None:
        return "a request without credentials"
    account = getattr(credentials, "service_account_email", None)
    return f"the token of {account}" if account else "the token of these credentials"


def _token_of(headers: Mapping[str, str]) -> str | None:
    return headers.get("authorization")


def _unanswered(error: BaseException | None) -> BaseException | None:
    """Return the cause of an error that shows that no server of tokens has answered; None otherwise."""
    while error is not None:  # gcsfs and Google's client wrap each other's errors
        is_passing = getattr(error, "retryable", False) or _NOT_METADATA in str(error)
        if is_passing or isinstance(error, _UNANSWERED):
            return error
        error = error.__cause__
    return None


def _no_token(path: str, why: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        path,
        f"Google's servers issued no token ({why}): check whether this machine reaches them, or a proxy "
        f"or a login page answers in their place",
    )


def _refuse_missing_key_file(bucket: str, token: Any) -> None:
    """Refuse a key file that is not there, because gcsfs would send its path as a token."""
    if isinstance(token, str) and token.startswith("/") and not os.path.exists(token):
        raise StoreRefusedError(
            f"gs://{bucket}: the key file '{token}' is not on {platform.node()}", "copy it to all nodes"
        )
