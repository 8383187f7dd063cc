"""How many of many schedules, combinations and examples `make test` and `make test-all` try.

``RAY_COMMITTER_TEST_RANGE`` chooses others: CI counts it up. ``RAY_COMMITTER_TEST_EXAMPLES`` is how many
examples Hypothesis draws for each property, ``RAY_COMMITTER_TEST_STRIDE`` the distance between the
requests at which other processes act.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

RANGE = int(os.environ.get("RAY_COMMITTER_TEST_RANGE", "0"))
STRIDE = int(os.environ.get("RAY_COMMITTER_TEST_STRIDE", "2"))
EXAMPLES = int(os.environ.get("RAY_COMMITTER_TEST_EXAMPLES", "25"))

Moment = TypeVar("Moment")


class FewerCrashes:
    """For a `StoreContract` on a server: `make test` lets a commit die at a fifth of its requests."""

    @pytest.fixture(params=[5, pytest.param(1, marks=pytest.mark.wide)])
    def crash_stride(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)


def moments(requests: Sequence[Moment]) -> Sequence[Moment]:
    """Those of some requests at which a test marked `moments` lets another process act: every other one
    in `make test`, each in `make test-all`."""
    return requests[RANGE % STRIDE :: STRIDE]


def seeds(*, narrow: int, wide: int) -> list[ParameterSet]:
    """The seeds up to `wide` in ranges of `narrow`, for `parametrize`; all but one range are `wide`.

    That one is the first, or the one of number `RANGE`, counted on from the first after the last.
    """
    ranges = [range(start, min(start + narrow, wide)) for start in range(0, wide, narrow)]
    kept = ranges[RANGE % len(ranges)]
    return [
        pytest.param(one, marks=() if one == kept else (pytest.mark.wide,), id=f"{one.start}-{one[-1]}")
        for one in ranges
    ]


def parts(count: int, *, wide: int) -> list[ParameterSet]:
    """The numbers of `wide` of so many parts of a whole, for `parametrize`; all but one are `wide`.

    They begin with the one that `RANGE` blocks of this size are before.
    """
    numbers = [(RANGE * wide + number) % count for number in range(wide)]
    first, *others = numbers
    return [pytest.param(first), *(pytest.param(one, marks=pytest.mark.wide) for one in others)]


def mark_every_other(items: Iterable[pytest.Item]) -> None:
    """Mark every other combination of the parameters of a test marked `alternate` as `wide`.

    The combinations of two parameters are the squares of a chessboard: a test tries those of one colour,
    and the next test in the module those of the other.
    """
    places: defaultdict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    tests: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for item in items:
        if item.get_closest_marker("alternate") is None or not isinstance(item, pytest.Function):
            continue
        module, name = item.location[0], f"{item.location[0]}::{item.originalname}"
        number = tests[module].setdefault(name, len(tests[module]))
        if not hasattr(item, "callspec"):
            continue
        for position, value in enumerate(item.callspec._idlist):
            known = places[name, position]
            number += known.setdefault(value, len(known))
        if number % 2:
            item.add_marker(pytest.mark.wide)
