"""Credentials for Azure: this module signs the requests.

adlfs finds the credential, but its client makes no requests, because that costs ten times as much as the
request. Source of the signature: Azure's "Authorize with Shared Key".
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from azure.core.exceptions import AzureError, ClientAuthenticationError

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.stores.answers import refuse_lasting

SCOPE = "https://storage.azure.com/.default"
REFRESH_SECONDS = 300.0
"""A token is replaced this long before it expires."""

_ANEW = '{"access_token": {}}'
"""Claims that ask for nothing, and for a token that no cache holds."""
_MISREAD = (AttributeError, LookupError, TypeError, ValueError)
"""What Azure's client raises for an answer that is not its server's, such as a login page."""
_SIGNED_HEADERS = ("Content-Length", "Content-Type", "If-Match", "If-None-Match", "Range")


class Authorization:
    """Authorizes requests; used by many threads. `query` is a SAS to add to URLs, or empty. `shown`
    names the credentials in errors, and `advice` says what to do if they are refused."""

    query = ""
    shown: str
    advice: str

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        """Return `headers` with what authorizes a request to `url`, which is quoted as it is sent."""
        return headers

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Return whether a request that was refused with these headers can be authorized otherwise."""
        return False


class Anonymous(Authorization):
    """No credential, or a credential in the query."""

    def __init__(self, query: str = "") -> None:
        self.query = query
        ends = dict(parse_qsl(query)).get("se")
        self.shown = f"the SAS (valid until {ends})" if ends else "the SAS"
        self.advice = "check that it is complete, not expired, and for this container; give a new one"
        if not query:
            self.shown = "a request without credentials"
            self.advice = "give a key, a SAS or an identity as a storage option"


class SharedKey(Authorization):
    """Signs each request with the account's key."""

    shown = "the account key"
    advice = "check the key, which may have been replaced, and the clock of this machine"

    def __init__(self, account: str, key: str) -> None:
        self.account = account
        self.key = key
        try:
            self._key = base64.b64decode(key)
        except ValueError:
            raise StoreRefusedError(
                f"the account key of {account} is not base64", "copy it again from the account"
            ) from None

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        text = string_to_sign(self.account, method, url, headers)
        signature = hmac.new(self._key, text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(signature).decode()}"
        return headers


def string_to_sign(account: str, method: str, url: str, headers: Mapping[str, str]) -> str:
    """Return the text to sign with SharedKey; since version 2015-02-21 a length of 0 is left empty."""
    length, kind, match, none_match, interval = (headers.get(name, "") for name in _SIGNED_HEADERS)
    # As the server does: with "0" every request without a body is refused.
    length = "" if length == "0" else length
    service_headers = "".join(
        f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-")
    )
    path, _, query = url[url.index("/", url.index("//") + 2) :].partition("?")
    pairs = sorted((name.lower(), value) for name, value in parse_qsl(query, keep_blank_values=True))
    asked = "".join(f"\n{name}:{value}" for name, value in pairs)
    return (
        f"{method}\n\n\n{length}\n\n{kind}\n\n\n{match}\n{none_match}\n\n{interval}\n"
        f"{service_headers}/{account}{path}{asked}"
    )


class Bearer(Authorization):
    """A token of Microsoft Entra ID, fetched once for all threads and again before it expires.
    `get_token` is as in ``azure.core.credentials.TokenCredential``."""

    shown = "the token"
    advice = "check the identity, and the tenant of the account"

    def __init__(self, get_token: Callable[..., Any], *, clock: Callable[[], float] = time.time) -> None:
        self._get_token = get_token
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._expires = 0.0

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        headers["Authorization"] = f"Bearer {self.token()}"
        return headers

    def renew(self, refused: Mapping[str, str]) -> bool:
        with self._lock:
            # Another thread may have fetched a token meanwhile: then its token is tried first.
            if refused.get("Authorization") == f"Bearer {self._token}":
                try:
                    self._fetch(claims=_ANEW)
                except PermissionError:
                    return False
        return refused.get("Authorization") != f"Bearer {self._token}"

    def token(self) -> str:
        """Return a token that is valid for a while; the old one until it expires if there is no new one.
        `PermissionError` if the credential is refused, `StoreUnavailableError` if there is no answer."""
        if self._clock() < self._expires - REFRESH_SECONDS:
            return self._token
        with self._lock:
            if self._clock() >= self._expires - REFRESH_SECONDS:
                try:
                    self._fetch()
                except OSError:
                    # While the old token is valid, a server of tokens that is down stops nobody.
                    if self._clock() >= self._expires:
                        raise
            return self._token

    def _fetch(self, **how: str) -> None:
        try:
            issued = self._get_token(SCOPE, **how)
            self._token, self._expires = issued.token, float(issued.expires_on)
        except ClientAuthenticationError as e:
            raise PermissionError(errno.EACCES, f"no token was issued: {e.message}", SCOPE) from e
        except (AzureError, *_MISREAD) as e:
            refuse_lasting(e, SCOPE)
            raise StoreUnavailableError(
                SCOPE,
                f"no token was issued ({type(e).__name__}): check whether this machine reaches the "
                f"server of tokens, or a proxy or a login page answers in its place",
            ) from e
