"""The store contract on local files and on every double; servers have theirs in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink, rename_without_replacing
from ray_committer.testing import Identity, MemoryStore, StoreContract


class TestLocal(StoreContract):
    @pytest.fixture(
        params=[rename_without_replacing, link_and_unlink], ids=lambda rename: rename.__name__
    )
    def store(self, request: pytest.FixtureRequest) -> StoreOperations:
        return LocalStore(StoreSpec("file"), rename=request.param)

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestMemory(StoreContract):
    faulty_renames = 60  # of each of ten kinds

    @pytest.fixture(
        params=[(identity, real) for identity in Identity for real in (True, False)], ids=str
    )
    def store(self, request: pytest.FixtureRequest) -> StoreOperations:
        identity, real = request.param
        return MemoryStore(identity=identity, real_directories=real)

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/bucket")
        return "/bucket"
