"""The store contract on a real HDFS: over its RPC, and over WebHDFS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.hdfs.webhdfs import WebHdfsStore
from ray_committer.stores.http import HttpClient
from ray_committer.stores.registry import open_store
from ray_committer.testing import StoreContract
from tests.tiers import FewerCrashes

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]


class HdfsContract(FewerCrashes, StoreContract):
    @pytest.fixture
    def root(self, store: StoreOperations, directory: str) -> str:
        store.mkdirs(directory)
        return directory


class TestHdfs(HdfsContract):
    @pytest.fixture
    def store(self, rpc: StoreSpec) -> StoreOperations:
        return open_store(rpc)


class TestWebHdfs(HdfsContract):
    @pytest.fixture
    def store(self, web: StoreSpec) -> StoreOperations:
        return open_store(web)


class Counting(HttpClient):
    requests = 0

    def request(self, *arguments: Any, **named: Any) -> HttpAnswer:
        self.requests += 1
        return super().request(*arguments, **named)


@pytest.mark.parametrize(
    ("operation", "requests"),
    [
        (lambda store, root: store.write(f"{root}/b", b"1"), 2),
        (lambda store, root: store.read(f"{root}/a"), 2),
        (lambda store, root: store.get_status(f"{root}/a"), 1),
        (lambda store, root: store.get_status(f"{root}/missing"), 1),
        (lambda store, root: store.list_status(root), 1),
        (lambda store, root: store.list_files(root), 2),
        (lambda store, root: store.mkdirs(f"{root}/e/f"), 1),
        (lambda store, root: store.rename(f"{root}/a", f"{root}/b"), 1),
        (lambda store, root: store.move_whole(f"{root}/d", f"{root}/e"), 3),
        (lambda store, root: store.delete_file(f"{root}/a"), 1),
        (lambda store, root: store.remove_empty_directory(f"{root}/d"), 2),
        (lambda store, root: store.delete_directory(root), 1),
    ],
)
def test_these_operations_are_more_than_one_request(
    web: StoreSpec, operation: Callable[[StoreOperations, str], object], requests: int
):
    client = Counting()
    store, root = WebHdfsStore(web, client=client), "/tests/plain-requests"
    store.delete_directory(root)
    store.mkdirs(f"{root}/d")
    store.write(f"{root}/a", b"1")
    client.requests = 0
    operation(store, root)
    assert client.requests == requests
