"""What the tests of public functions share: kinds of stores, and the requests that these make."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ray_committer.testing import MemoryStore
from tests.opening import opening
from tests.stages.support import EACH_TABLE, KINDS_OF_TABLES


@pytest.fixture(params=EACH_TABLE)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS_OF_TABLES[request.param]


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """The requests that are made, by their names."""
    made: list[str] = []
    with opening(before=lambda call: made.append(call.operation)):
        yield made
