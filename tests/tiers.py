"""What of many random schedules `make test` tries; `make test-all` tries all of them."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet


def seeds(*, narrow: int, wide: int) -> list[ParameterSet]:
    """The seeds up to `wide` in ranges of `narrow`, for `parametrize`; all but the first are `wide`."""
    ranges = [range(start, min(start + narrow, wide)) for start in range(0, wide, narrow)]
    return [
        pytest.param(one, marks=(pytest.mark.wide,) if one.start else (), id=f"{one.start}-{one[-1]}")
        for one in ranges
    ]
