"""The in-test account as Microsoft's own client and adlfs see it: what they rely on is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.filedatalake import DataLakeServiceClient, FileSystemClient

from tests.integration.adls.conftest import CONTAINER
from tests.servers.dfs import DfsServer

pytestmark = [pytest.mark.xdist_group("adls"), pytest.mark.timeout(60)]


@pytest.fixture
def sdk(dfs: DfsServer) -> Iterator[FileSystemClient]:
    with DataLakeServiceClient.from_connection_string(dfs.connection_string(), retry_total=0) as service:
        yield service.get_file_system_client(CONTAINER)


@pytest.fixture
def fs(options: dict[str, Any]) -> AzureBlobFileSystem:
    return AzureBlobFileSystem(**options, use_listings_cache=False, skip_instance_cache=True)


def create(sdk: FileSystemClient, path: str, data: bytes) -> str:
    """Write a file and return its etag."""
    file = sdk.get_file_client(path)
    file.upload_data(data, overwrite=True)
    return file.get_file_properties().etag


def rename(sdk: FileSystemClient, source: str, dest: str, etag: str | None = None) -> None:
    conditions: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
    if etag:
        conditions |= {"source_etag": etag, "source_match_condition": MatchConditions.IfNotModified}
    sdk.get_file_client(source).rename_file(f"{CONTAINER}/{dest}", **conditions)


def test_the_vendors_client_makes_and_lists_containers(dfs: DfsServer):
    with DataLakeServiceClient.from_connection_string(dfs.connection_string()) as service:
        service.create_file_system("another")
        with pytest.raises(ResourceExistsError):
            service.create_file_system("another")


def test_the_vendors_client_writes_reads_and_lists(sdk: FileSystemClient):
    create(sdk, "a/b c/ü", b"0123456789")
    sdk.create_directory("a/d")
    file = sdk.get_file_client("a/b c/ü")
    assert file.download_file().readall() == b"0123456789"
    assert file.download_file(offset=3, length=4).readall() == b"3456"
    found = {path.name: path.is_directory for path in sdk.get_paths("a")}
    assert found == {"a/b c": True, "a/b c/ü": False, "a/d": True}
    assert [path.name for path in sdk.get_paths("a", recursive=False, max_results=1)] == ["a/b c", "a/d"]


def test_a_rename_keeps_the_etag_and_its_conditions_are_honoured(sdk: FileSystemClient):
    old, new = create(sdk, "a", b"first"), create(sdk, "a", b"second")
    with pytest.raises(HttpResponseError) as changed:
        rename(sdk, "a", "b", old)
    assert (changed.value.status_code, changed.value.error_code) == (412, "SourceConditionNotMet")
    rename(sdk, "a", "b", new)
    assert sdk.get_file_client("b").get_file_properties().etag == new
    create(sdk, "a", b"third")
    with pytest.raises(ResourceExistsError, match="PathAlreadyExists"):
        rename(sdk, "a", "b")
    with pytest.raises(ResourceNotFoundError, match="RenameDestinationParentPathNotFound"):
        rename(sdk, "a", "missing/b")
    with pytest.raises(ResourceNotFoundError, match="SourcePathNotFound"):
        rename(sdk, "missing", "c")
    for dest in ("b", "missing"):
        with pytest.raises(HttpResponseError) as other:
            sdk.get_file_client("a").rename_file(
                f"{CONTAINER}/{dest}", etag=old, match_condition=MatchConditions.IfNotModified
            )
        assert (other.value.status_code, other.value.error_code) == (412, "ConditionNotMet")
    sdk.get_file_client("a").rename_file(
        f"{CONTAINER}/b", etag=new, match_condition=MatchConditions.IfNotModified
    )
    assert sdk.get_file_client("b").download_file().readall() == b"third"


def test_directories_go_as_a_whole_or_only_if_empty(sdk: FileSystemClient):
    create(sdk, "d/e/f", b"1")
    with pytest.raises(ResourceExistsError, match="DirectoryNotEmpty"):
        sdk.get_file_client("d").delete_file(recursive=False)
    sdk.get_directory_client("d").rename_directory(f"{CONTAINER}/g")
    assert [path.name for path in sdk.get_paths()] == ["g", "g/e", "g/e/f"]
    sdk.get_directory_client("g").delete_directory()
    assert list(sdk.get_paths()) == []


def test_adlfs_writes_reads_and_lists(fs: AzureBlobFileSystem, sdk: FileSystemClient):
    fs.pipe_file(f"{CONTAINER}/a/b%3A c", b"content")
    with fs.open(f"{CONTAINER}/a/big", "wb") as file:
        file.write(b"x" * 100)
    assert fs.cat_file(f"{CONTAINER}/a/b%3A c") == b"content"
    assert sorted(fs.find(CONTAINER)) == [f"{CONTAINER}/a/b%3A c", f"{CONTAINER}/a/big"]
    assert fs.info(f"{CONTAINER}/a/big")["size"] == 100
    assert fs.ls(f"{CONTAINER}", detail=False) == [f"{CONTAINER}/a"]
    assert sdk.get_file_client("a/big").download_file().readall() == b"x" * 100
    fs.rm(f"{CONTAINER}/a/big")
    assert not fs.exists(f"{CONTAINER}/a/big")


def test_a_wrong_key_is_refused(dfs: DfsServer):
    wrong = dfs.connection_string().replace("AccountKey=a2V5", "AccountKey=b2V5")
    with DataLakeServiceClient.from_connection_string(wrong, retry_total=0) as service:
        with pytest.raises(HttpResponseError) as refused:
            list(service.get_file_system_client(CONTAINER).get_paths())
        assert refused.value.status_code == 403
