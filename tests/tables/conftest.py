"""What the tests of tables share: stores, and the place of a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore
from tests.stages.support import EACH_TABLE, KINDS_OF_TABLES


@pytest.fixture(params=EACH_TABLE)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS_OF_TABLES[request.param]


@pytest.fixture(params=[*EACH_TABLE, "local"])
def store(request: pytest.FixtureRequest) -> StoreOperations:
    is_local = request.param == "local"
    return LocalStore(StoreSpec("file")) if is_local else KINDS_OF_TABLES[request.param]()


@pytest.fixture
def table(tmp_path: Path) -> TablePlaces:
    return TablePlaces(str(tmp_path / "table"))
