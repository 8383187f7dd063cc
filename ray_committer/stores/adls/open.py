"""Open a container of Azure Data Lake Storage; refuse a flat namespace, where a rename is a copy.

Nothing is assumed. Three requests can show the kind of namespace, and each needs another permission: for
the container's properties, for the account's properties, and for the root's access control list. Only a
hierarchical namespace has that list, and Hadoop's ABFS also asks for it. The first answer decides.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

from ray_committer.errors import StoreRefusedError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.adls.connect import connect, reader_options
from ray_committer.stores.adls.http import AdlsHttp, error_code
from ray_committer.stores.adls.names import parse_authority
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.answers import CredentialsRefusedError, HttpAnswer
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.deadline import first_deadline
from ray_committer.stores.guarded import until_answered
from ray_committer.stores.http import HttpClient

Told = tuple[bool | None, HttpAnswer]


def open_adls(spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS) -> StoreOperations:
    """Open a container; `StoreRefusedError` if its account is unknown or has a flat namespace."""
    container = parse_authority(spec.authority)
    if not container.account:
        raise StoreRefusedError(
            f"abfs://{spec.authority}: the URL names no account",
            f"write "
            f"abfss://{container.name}@ACCOUNT.dfs.core.windows.net/, or set the storage option "
            f"account_name",
        )
    connection = connect(spec.storage_options, container.account, container.host)
    client = HttpClient(first_seconds=first_deadline(retry_seconds))
    http = AdlsHttp(connection, container.name, client)
    _require_hierarchical_namespace(http, retry_seconds)
    return AdlsStore(spec, http)


def adlfs_options(spec: StoreSpec) -> dict[str, Any]:
    """Return the options with which adlfs reads a container; `StoreRefusedError` if it cannot."""
    container = parse_authority(spec.authority)
    return reader_options(spec.storage_options, container.account, container.host)


def _require_hierarchical_namespace(http: AdlsHttp, retry_seconds: float) -> None:
    """`StoreRefusedError` unless a request shows that the account has a hierarchical namespace, or
    `FileNotFoundError` if there is no such container."""
    denied, refused = [], []
    for question in (_by_container, _by_account, _by_root):
        try:
            is_hierarchical, answer = until_answered(partial(question, http), retry_seconds)
        except CredentialsRefusedError as e:
            refused.append(e)
            denied.append("credentials refused")
            continue
        if is_hierarchical:
            return
        # None is another answer: this request does not show it, and the next one is made.
        if is_hierarchical is False:
            raise StoreRefusedError(
                f"abfs://{http.container}@{http.connection.account}: the account has no hierarchical "
                f"namespace, so a rename there is a copy and a delete",
                "upgrade it to Data Lake Storage Gen2, or write to an account that has such a namespace",
            )
        denied.append(f"{answer.status} {error_code(answer)}".strip())
    if len(refused) == len(denied):
        raise StoreRefusedError(
            f"abfs://{http.container}@{http.connection.account}: {refused[0].strerror}",
            http.connection.authorization.advice,
        ) from refused[0]
    raise StoreRefusedError(
        f"abfs://{http.container}@{http.connection.account}: cannot find out whether the account has a "
        f"hierarchical namespace ({', '.join(denied)}), without which a rename is a copy",
        "grant the permission to read the container's properties (Storage Blob Data Contributor)",
    )


def _by_container(http: AdlsHttp) -> Told:
    answer = http.path("HEAD", "", {"resource": "filesystem"})
    if error_code(answer) == "FilesystemNotFound":
        raise FileNotFoundError(errno.ENOENT, "there is no such container", "/")
    return _flag(answer, "x-ms-namespace-enabled"), answer


def _by_account(http: AdlsHttp) -> Told:
    query = {"restype": "account", "comp": "properties"}
    answer = http.path("GET", "/", query, of_account=True)
    return _flag(answer, "x-ms-is-hns-enabled"), answer


def _by_root(http: AdlsHttp) -> Told:
    query = {"action": "getAccessControl", "upn": "false"}
    answer = http.path("HEAD", "//", query, shown="/")
    # What the service answers to a flat account: it has no access control lists.
    if answer.status == 400:
        return False, answer
    return (True if answer.status == 200 and "x-ms-acl" in answer.headers else None), answer


def _flag(answer: HttpAnswer, name: str) -> bool | None:
    value = answer.headers.get(name) if answer.status == 200 else None
    return None if value is None else value.lower() == "true"
