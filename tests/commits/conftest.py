"""What the tests of whole commits share: kinds of stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_committer.testing import MemoryStore
from tests.stages.support import KINDS


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[], MemoryStore]:
    return KINDS[request.param]
