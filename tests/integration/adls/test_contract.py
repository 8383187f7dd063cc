"""The store contract on an account with a hierarchical namespace."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ray_committer.stores.base import StoreOperations
from ray_committer.testing import StoreContract
from tests.integration.adls.conftest import opened
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
