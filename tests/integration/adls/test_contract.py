"""The store contract on an account with a hierarchical namespace."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.stores.base import StoreOperations
from ray_committer.testing import StoreContract
from tests.integration.adls.conftest import opened
from tests.servers.dfs import DfsServer
from tests.tiers import FewerCrashes

pytestmark = [pytest.mark.xdist_group("adls")]


class TestAdlsStore(FewerCrashes, StoreContract):
    faulty_renames = int(os.environ.get("RAY_COMMITTER_TEST_RENAMES", "120"))

    @pytest.fixture
    def store(self, url: str, options: dict[str, Any]) -> StoreOperations:
        return opened(url, options)

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        (lambda store: store.write("/d/b", b"1"), {"create file": 1, "append": 1}),
        (lambda store: store.read("/d/a"), {"read": 1}),
        (lambda store: store.get_status("/d/a"), {"status": 1}),
        (lambda store: store.get_status("/d/missing"), {"status": 1}),
        (lambda store: store.list_status("/d"), {"list": 1}),
        (lambda store: store.list_files("/d"), {"list": 1}),
        (lambda store: store.mkdirs("/d/e/f"), {"create directory": 1}),
        (lambda store: store.rename("/d/a", "/d/b"), {"rename": 1}),
        (lambda store: store.move_whole("/d", "/e"), {"rename": 1}),
        (lambda store: store.rights_below("/d"), {"acl": 2}),
        (lambda store: store.delete_file("/d/a"), {"delete": 1}),
        (lambda store: store.delete_directory("/d"), {"delete": 1}),
    ],
)
def test_only_a_file_is_written_by_two_requests(
    dfs: DfsServer,
    url: str,
    options: dict[str, Any],
    operation: Callable[[StoreOperations], object],
    calls: dict[str, int],
):
    store = opened(url, options)
    store.mkdirs("/d")
    store.write("/d/a", b"1")
    dfs.calls.clear()
    operation(store)
    assert dfs.calls == calls
