"""Owner, group, mode and access lists of directories, as both ways to HDFS show and foretell them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hdfs_native
import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.hdfs.protocol import UMASK
from ray_committer.stores.hdfs.store import HdfsStore
from ray_committer.stores.hdfs.webhdfs import WebHdfsStore
from tests.servers.hdfs import HdfsServer, hdfs_server

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def with_lists() -> Iterator[HdfsServer]:
    """A NameNode that allows access lists, as it does from Hadoop 3.3 on."""
    with hdfs_server({"dfs.namenode.acls.enabled": "true"}) as server:
        yield server


def opened(server: HdfsServer, way: str, **options: Any) -> StoreOperations:
    """A store of a process that has written nothing yet."""
    if way == "rpc":
        return HdfsStore(StoreSpec("hdfs", server.authority, options))
    return WebHdfsStore(StoreSpec("webhdfs", server.http_url.removeprefix("http://"), options))


@pytest.fixture(params=["rpc", "web"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["server", "with_lists"])
def each(request: pytest.FixtureRequest) -> HdfsServer:
    """Without and with access lists."""
    found: HdfsServer = request.getfixturevalue(request.param)
    return found


def shown(store: StoreOperations, path: str) -> str | None:
    above = path.rpartition("/")[0]
    return next(one.rights for one in store.list_status(above) if one.path == path)


@pytest.mark.parametrize("umask", ["022", "027", "077"])
def test_a_new_directory_has_the_rights_that_were_foretold(
    each: HdfsServer, directory: str, way: str, umask: str
):
    store = opened(each, way, **{UMASK: umask})
    store.mkdirs(f"{directory}/above")
    hdfs_native.Client(f"hdfs://{each.authority}", {}).set_owner(f"{directory}/above", "alice", "staff")
    assert store.rights_below(f"{directory}/above") is None
    store.write(f"{directory}/a", b"1")
    foretold = store.rights_below(f"{directory}/above")
    store.mkdirs(f"{directory}/above/p=1/q=2")
    assert (
        foretold == shown(store, f"{directory}/above/p=1") == shown(store, f"{directory}/above/p=1/q=2")
    )
    assert foretold is not None
    assert foretold.endswith(f":staff:{0o777 & ~int(umask, 8):o}")
    assert not foretold.startswith("alice:")
    assert {one.rights for one in store.list_status(directory) if not one.is_directory} == {None}


def test_who_writes_is_learned_from_a_file_that_is_still_there(
    each: HdfsServer, directory: str, way: str
):
    store = opened(each, way)
    store.mkdirs(directory)
    for name in ("a", "b", "c"):
        store.write(f"{directory}/{name}", b"1")
    for name in ("b", "c"):
        store.delete_file(f"{directory}/{name}")
    foretold = store.rights_below(directory)
    assert foretold is not None
    store.delete_file(f"{directory}/a")
    assert store.rights_below(directory) == foretold  # is asked for once


@pytest.mark.parametrize("scope", ["access", "default"])
def test_rights_with_an_access_list_are_not_foretold(
    with_lists: HdfsServer, directory: str, way: str, scope: Any
):
    store = opened(with_lists, way)
    store.mkdirs(f"{directory}/above")
    store.write(f"{directory}/a", b"1")
    assert store.rights_below(f"{directory}/above") is not None
    client = hdfs_native.Client(f"hdfs://{with_lists.authority}", {})
    client.modify_acl_entries(f"{directory}/above", [hdfs_native.AclEntry("user", scope, "r-x", "bob")])
    assert store.rights_below(f"{directory}/above") is None
    assert shown(store, f"{directory}/above") is None  # this NameNode shows it in its listings


def test_below_a_missing_directory_no_rights_are_foretold(each: HdfsServer, directory: str, way: str):
    assert opened(each, way).rights_below(f"{directory}/missing") is None
