"""Open a container of Azure Data Lake Storage: find its account, and refuse flat ones."""

from __future__ import annotations

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.adls.auth import connect
from ray_committer.stores.adls.http import AdlsHttp
from ray_committer.stores.adls.names import parse_authority
from ray_committer.stores.adls.namespace import require_hierarchical_namespace
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.base import StoreOperations, StoreSpec


def open_adls(spec: StoreSpec) -> StoreOperations:
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
    http = AdlsHttp(connection, container.name)
    require_hierarchical_namespace(http)
    return AdlsStore(spec, http)
