"""What the tests of public functions share: the requests that these make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.opening import opening


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """The requests that are made, by their names."""
    made: list[str] = []
    with opening(before=lambda call: made.append(call.operation)):
        yield made
