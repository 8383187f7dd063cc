"""What the tests of tables' jobs share: kinds of stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_committer.testing import MemoryStore
from tests.stages.support import EACH_TABLE, KINDS_OF_TABLES


@pytest.fixture(params=EACH_TABLE)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS_OF_TABLES[request.param]
