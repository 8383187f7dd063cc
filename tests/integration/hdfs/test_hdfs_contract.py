"""The store contract on a real HDFS: over its RPC, and over WebHDFS."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
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
