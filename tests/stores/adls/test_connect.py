"""Where adlfs reads files for readers: where the commit has put them."""

from __future__ import annotations

from typing import Any

import pytest
from adlfs import AzureBlobFileSystem

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.adls.connect import connect
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.adls.open import adlfs_options
from ray_committer.stores.base import StoreSpec

ACCOUNT = "acct"
HOST = f"{ACCOUNT}.dfs.core.windows.net"
CHINA = f"{ACCOUNT}.dfs.core.chinacloudapi.cn"
PRIVATE = f"https://{ACCOUNT}.z1.dfs.storage.azure.net"
LOCAL = f"http://127.0.0.1:10000/{ACCOUNT}"
KEY = "a2V5"
IDENTITY = AzureIdentity("ManagedIdentityCredential", {})


@pytest.mark.parametrize("host", [HOST, CHINA])
@pytest.mark.parametrize("endpoint", [None, PRIVATE, LOCAL])
@pytest.mark.parametrize(
    "credentials",
    [
        {"account_key": KEY},
        {"sas_token": "sv=1&sig=a%2Bb%3D"},
        {"credential": IDENTITY},
        {"anon": True},
        {"connection_string": f"AccountName={ACCOUNT};AccountKey={KEY}"},
    ],
    ids=["key", "SAS", "identity", "anonymous", "connection string"],
)
def test_adlfs_reads_where_the_commit_writes(
    host: str, endpoint: str | None, credentials: dict[str, Any]
):
    if "connection_string" in credentials and host == CHINA:
        suffix = "EndpointSuffix=core.chinacloudapi.cn"
        credentials = {"connection_string": f"{credentials['connection_string']};{suffix}"}
    given = {**credentials, **({"endpoint": endpoint} if endpoint else {})}
    if endpoint == LOCAL and "credential" in credentials:
        with pytest.raises(StoreRefusedError, match="sends a token only by https"):
            adlfs_options(StoreSpec("abfs", f"lake@{host}", given))
        return
    found = connect(given, ACCOUNT, host)
    options = adlfs_options(StoreSpec("abfs", f"lake@{host}", given))
    system = AzureBlobFileSystem(**options, skip_instance_cache=True)
    assert system.service_client.url.partition("?")[0].rstrip("/") == found.blob
    assert "endpoint" not in options
