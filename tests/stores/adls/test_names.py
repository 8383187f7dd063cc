"""One container has one name, however URLs, options and manifests spell it."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.errors import PreflightError
from ray_committer.stores.adls.names import is_same_container, normal_authority
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import resolve_destination
from ray_committer.work.entries import store_path

NORMAL = "lake@acct.dfs.core.windows.net"
CONNECTION = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5;"


@pytest.mark.parametrize(
    ("authority", "options", "environment", "normal"),
    [
        (NORMAL, {}, {}, NORMAL),
        ("Lake@Acct.DFS.core.windows.net", {}, {}, NORMAL),
        ("lake@acct.blob.core.windows.net", {}, {}, NORMAL),
        ("lake", {"account_name": "acct"}, {}, NORMAL),
        ("lake", {"connection_string": CONNECTION}, {}, NORMAL),
        ("lake", {"connection_string": CONNECTION, "account_name": "other"}, {}, NORMAL),
        ("lake", {}, {"AZURE_STORAGE_ACCOUNT_NAME": "acct"}, NORMAL),
        ("lake", {}, {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}, NORMAL),
        ("lake", {"account_name": "acct"}, {"AZURE_STORAGE_ACCOUNT_NAME": "other"}, NORMAL),
        (
            "lake",
            {"account_name": "acct", "account_host": "acct.blob.core.chinacloudapi.cn"},
            {},
            "lake@acct.dfs.core.chinacloudapi.cn",
        ),
        (
            "lake",
            {"connection_string": f"{CONNECTION}EndpointSuffix=core.usgovcloudapi.net"},
            {},
            "lake@acct.dfs.core.usgovcloudapi.net",
        ),
        ("lake", {}, {}, "lake"),
    ],
)
def test_a_container_is_named_with_its_account(
    authority: str, options: dict[str, Any], environment: dict[str, str], normal: str
):
    assert normal_authority(authority, options, environment) == normal


@pytest.mark.parametrize(
    ("authority", "is_same"),
    [
        (NORMAL, True),
        ("LAKE@acct.dfs.core.windows.net", True),
        ("lake", True),
        ("pond", False),
        ("lake@other.dfs.core.windows.net", False),
        ("lake@acct.dfs.core.chinacloudapi.cn", False),
    ],
)
def test_a_manifest_names_the_same_container_in_either_form(authority: str, is_same: bool):
    assert is_same_container(authority, NORMAL) is is_same
    spec = StoreSpec("abfs", NORMAL)
    for scheme in ("abfs", "abfss"):
        uri = f"{scheme}://{authority}/a%20b/c"
        if is_same:
            assert store_path(uri, spec) == "/a b/c"
        else:
            with pytest.raises(PreflightError, match="another store"):
                store_path(uri, spec)


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "ABFSS"])
def test_a_destination_resolves_to_hadoops_form(scheme: str):
    spec, path = resolve_destination(f"{scheme}://lake/a%20b", {"account_name": "acct"})
    assert (spec.scheme, spec.authority, path) == ("abfs", NORMAL, "/a b")
