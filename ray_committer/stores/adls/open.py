"""Open a container of Azure Data Lake Storage: find its account, and refuse flat ones."""

from __future__ import annotations

from typing import Any

from ray_committer.errors import StoreRefusedError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.adls.connect import connect, reader_options
from ray_committer.stores.adls.http import AdlsHttp
from ray_committer.stores.adls.names import parse_authority
from ray_committer.stores.adls.namespace import require_hierarchical_namespace
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.deadline import first_deadline
from ray_committer.stores.http import HttpClient


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
    require_hierarchical_namespace(http, retry_seconds)
    return AdlsStore(spec, http)


def adlfs_options(spec: StoreSpec) -> dict[str, Any]:
    """Return the options with which adlfs reads a container; `StoreRefusedError` if it cannot."""
    container = parse_authority(spec.authority)
    return reader_options(spec.storage_options, container.account, container.host)
