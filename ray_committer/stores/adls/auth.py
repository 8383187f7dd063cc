"""Credentials for Azure: adlfs finds the credential, this module signs the requests.

adlfs supports all ways to specify one (key, connection string, SAS, service principal, environment,
managed identity). Its client makes no requests, because that costs ten times as much as the request.
Source of the signature: Azure's "Authorize with Shared Key".
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from adlfs import AzureBlobFileSystem
from azure.core.exceptions import AzureError, ClientAuthenticationError
from fsspec.asyn import get_loop, sync

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.stores.adls.names import blob_host, dfs_host

SCOPE = "https://storage.azure.com/.default"
REFRESH_SECONDS = 300.0
"""A token is replaced this long before it expires."""

OWN_OPTIONS = ("endpoint",)
"""Storage options of this package, which adlfs does not get."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SIGNED_HEADERS = ("Content-Length", "Content-Type", "If-Match", "If-None-Match", "Range")


class Authorization(Protocol):
    """Authorizes requests; used by many threads. `query` is a SAS to add to URLs, or empty."""

    query: str

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:
        """Return `headers` with what authorizes a request to `url`, which is quoted as it is sent."""


class Anonymous:
    """No credential, or a credential in the query."""

    def __init__(self, query: str = "") -> None:
        self.query = query

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        return headers


class SharedKey:
    """Signs each request with the account's key."""

    query = ""

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
    length = "" if length == "0" else length
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    path, _, query = url[url.index("/", url.index("//") + 2) :].partition("?")
    pairs = sorted((name.lower(), value) for name, value in parse_qsl(query, keep_blank_values=True))
    asked = "".join(f"\n{name}:{value}" for name, value in pairs)
    return (
        f"{method}\n\n\n{length}\n\n{kind}\n\n\n{match}\n{none_match}\n\n{interval}\n"
        f"{own}/{account}{path}{asked}"
    )


class Bearer:
    """A token of Microsoft Entra ID, fetched once for all threads and again before it expires."""

    query = ""

    def __init__(
        self, get_token: Callable[[str], Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._get_token = get_token
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._expires = 0.0

    def headers(self, method: str, url: str, headers: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        headers["Authorization"] = f"Bearer {self.token()}"
        return headers

    def token(self) -> str:
        """Return a token that is valid for a while; the old one until it expires if there is no new one.

        `PermissionError` if the credential is refused, `StoreUnavailableError` if there is no answer.
        """
        if self._clock() < self._expires - REFRESH_SECONDS:
            return self._token
        with self._lock:
            if self._clock() < self._expires - REFRESH_SECONDS:
                return self._token
            try:
                found = self._get_token(SCOPE)
            except ClientAuthenticationError as e:
                if self._clock() < self._expires:
                    return self._token
                raise PermissionError(errno.EACCES, f"no token was issued: {e.message}", SCOPE) from e
            except AzureError as e:
                if self._clock() < self._expires:
                    return self._token
                raise StoreUnavailableError(SCOPE, f"no token was issued: {type(e).__name__}") from e
            self._token, self._expires = found.token, float(found.expires_on)
            return self._token

    def get_token(self, *scopes: str, **_: Any) -> Any:
        """Return a new token, as ``azure.core.credentials.TokenCredential`` does."""
        return self._get_token(*scopes)


class Connection(NamedTuple):
    """An account: its DFS and blob endpoints without a trailing slash, and how to authorize requests."""

    account: str | None
    dfs: str
    blob: str
    authorization: Authorization


def connect(options: Mapping[str, Any], account: str, host: str) -> Connection:
    """Let adlfs resolve `options` for the account that the URL names.

    `StoreRefusedError` if they lead to another account, or would send a token unencrypted.
    """
    given = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    given.setdefault("account_name", account)
    if not host.endswith(".dfs.core.windows.net"):
        given.setdefault("account_host", blob_host(host))
    try:
        system = AzureBlobFileSystem(**given, skip_instance_cache=True)
    except ValueError as e:
        raise StoreRefusedError(
            f"abfs://{host}: adlfs cannot connect with these storage options", "see its documentation"
        ) from e
    client = system.service_client
    url = urlsplit(client.url)
    found = client.account_name
    if found is not None and found != account:
        raise StoreRefusedError(
            f"abfs://{host}: the URL names the account {account}, but the storage options or the "
            f"environment name {found}",
            f"set them for {account}",
        )
    blob = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    dfs = str(options.get("endpoint") or blob.replace(url.netloc, dfs_host(url.netloc), 1)).rstrip("/")
    if "endpoint" in options:
        blob = dfs.replace(urlsplit(dfs).netloc, blob_host(urlsplit(dfs).netloc), 1)
    authorization = _authorization(system, url.query)
    is_open = urlsplit(dfs).scheme != "https" and urlsplit(dfs).hostname not in _LOOPBACK
    if is_open and not isinstance(authorization, SharedKey):
        raise StoreRefusedError(f"{dfs}: a token or a SAS would be sent unencrypted", "use https")
    return Connection(found or account, dfs, blob, authorization)


def _authorization(system: Any, query: str) -> Authorization:
    """Return how adlfs' client authorizes; `query` is the query of its URL, a SAS or empty."""
    credential = system.service_client.credential
    if credential is None:
        return Anonymous(query)
    if hasattr(credential, "account_key"):
        return SharedKey(credential.account_name, credential.account_key)
    if hasattr(credential, "signature"):
        return Anonymous(credential.signature.lstrip("?"))
    if not hasattr(credential, "get_token"):
        raise StoreRefusedError(
            f"a credential of type {type(credential).__name__} is not supported",
            "use a key, a SAS, or an object of azure.identity",
        )
    return Bearer(_Tokens(system, system.sync_credential or credential).get)


class _Tokens:
    """Tokens of a synchronous or asynchronous credential.

    Keeps adlfs' object, which closes what it has made when it ends.
    """

    def __init__(self, system: Any, credential: Any) -> None:
        self._system = system
        self._credential = credential

    def get(self, *scopes: str) -> Any:
        found = self._credential.get_token(*scopes)
        return sync(get_loop(), _awaited, found) if isawaitable(found) else found


async def _awaited(found: Awaitable[Any]) -> Any:
    return await found
