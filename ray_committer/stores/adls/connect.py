"""Connect to an account as adlfs does, which finds its endpoints and the credential.

adlfs supports all ways to specify a credential (key, connection string, SAS, service principal,
environment, managed identity). It makes no request of a commit or a task, but reads files for readers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from adlfs import AzureBlobFileSystem
from fsspec.asyn import get_loop, sync

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.addresses import server_address
from ray_committer.stores.adls.auth import Anonymous, Authorization, Bearer, SharedKey
from ray_committer.stores.adls.names import DEFAULT_SUFFIX, blob_host, dfs_host
from ray_committer.stores.hdfs.protocol import UMASK

ENDPOINT = "endpoint"
_OWN = (ENDPOINT, UMASK)
"""The storage options of this package, which adlfs does not get."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Connection(NamedTuple):
    """An account: its DFS and blob endpoints without a trailing slash, and how to authorize requests."""

    account: str | None
    dfs: str
    blob: str
    authorization: Authorization


def connect(options: Mapping[str, Any], account: str, host: str) -> Connection:
    """Let adlfs resolve `options` for the account that the URL names. `StoreRefusedError` if they lead
    to another account, or would send a token unencrypted."""
    # fsspec's cache would return an object with the credentials of an earlier call.
    given = {**_for_adlfs(options, account, host), "skip_instance_cache": True}
    if ENDPOINT in options:
        endpoint = str(options[ENDPOINT])
        server_address(f"abfs://{host}", f"the storage option {ENDPOINT}", endpoint, path=True)
    try:
        system = AzureBlobFileSystem(**given)
    except ValueError:
        raise StoreRefusedError(
            f"abfs://{host}: adlfs cannot connect with these storage options", "see its documentation"
        ) from None  # its text may hold the connection string
    client = system.service_client
    url = urlsplit(client.url)
    resolved_account = client.account_name
    if resolved_account is not None and resolved_account != account:
        raise StoreRefusedError(
            f"abfs://{host}: the URL names the account {account}, but the storage options or the "
            f"environment name {resolved_account}",
            f"set them for {account}",
        )
    blob = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    dfs = str(options.get(ENDPOINT) or blob.replace(url.netloc, dfs_host(url.netloc), 1)).rstrip("/")
    if ENDPOINT in options:
        blob = dfs.replace(urlsplit(dfs).netloc, blob_host(urlsplit(dfs).netloc), 1)
    authorization = _authorization(system, url.query)
    # A signature shows nothing of the key; a token or a SAS can be used by whoever reads it on its way.
    is_open = urlsplit(dfs).scheme != "https" and urlsplit(dfs).hostname not in _LOOPBACK
    if is_open and not isinstance(authorization, SharedKey):
        raise StoreRefusedError(
            f"abfs://{host}: a token or a SAS would be sent unencrypted to the endpoint", "use https"
        )
    return Connection(resolved_account or account, dfs, blob, authorization)


def reader_options(options: Mapping[str, Any], account: str, host: str) -> dict[str, Any]:
    """Return the options with which adlfs reads from the account that `connect` connects to.
    `StoreRefusedError` if adlfs cannot: it sends a token only to an ``https`` endpoint."""
    given = _for_adlfs(options, account, host)
    if ENDPOINT not in options:
        return given
    connection = connect(options, account, host)
    name, secret = f"AccountName={connection.account}", connection.authorization
    if isinstance(secret, SharedKey):
        settings = [name, f"AccountKey={secret.key}", f"BlobEndpoint={connection.blob}"]
        return {**given, "connection_string": ";".join(settings)}
    if isinstance(secret, Bearer):
        if not connection.blob.startswith("https://"):
            raise StoreRefusedError(
                f"{connection.dfs}: adlfs, which reads the files, sends a token only by https",
                "use an https endpoint or an account key",
            )
        return {**given, "account_host": connection.blob.removeprefix("https://")}
    sas = [f"SharedAccessSignature={secret.query}"] if secret.query else []
    return {**given, "connection_string": ";".join([name, f"BlobEndpoint={connection.blob}", *sas])}


def _for_adlfs(options: Mapping[str, Any], account: str, host: str) -> dict[str, Any]:
    """Return the options that adlfs knows, for the account that a URL names with its DFS host."""
    given = {name: value for name, value in options.items() if name not in _OWN}
    given.setdefault("account_name", account)
    if not host.endswith(f".dfs.{DEFAULT_SUFFIX}"):
        given.setdefault("account_host", blob_host(host))
    return given


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
    """Tokens of any credential; keeps adlfs' object, which closes what it has made when it ends."""

    def __init__(self, system: Any, credential: Any) -> None:
        self._system = system
        self._credential = credential

    def get(self, *scopes: str, **how: str) -> Any:
        issued = self._credential.get_token(*scopes, **how)
        return sync(get_loop(), _awaited, issued) if isawaitable(issued) else issued


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
