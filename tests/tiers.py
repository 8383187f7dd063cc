"""What of a matrix or of random schedules `make test` tries; `make test-all` tries all of it.

A test belongs to `make test` unless it is marked `wide`, and to `make quick` unless a marker in
pyproject.toml says what it needs. CONTRIBUTING.md has the tiers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from allpairspy import AllPairs


def cover(
    *axes: Sequence[Any],
    marks: Callable[..., Sequence[pytest.MarkDecorator]] = lambda *_: (),
    name: Callable[[Any], str] = str,
) -> list[ParameterSet]:
    """Every combination of the axes' values, for `parametrize`; at most a few are not `wide`.

    Those hold each pair of values of any two axes at least once, which finds what two of them do to
    each other. `marks` says what a combination needs, `name` how a value is shown.
    """
    pairwise = {tuple(case) for case in AllPairs([range(len(axis)) for axis in axes])}
    found = []
    for case in _product([len(axis) for axis in axes]):
        values = [axis[index] for axis, index in zip(axes, case, strict=True)]
        wide = () if case in pairwise else (pytest.mark.wide,)
        found.append(
            pytest.param(*values, marks=(*marks(*values), *wide), id=" ".join(map(name, values)))
        )
    return found


def seeds(*, narrow: int, wide: int) -> list[ParameterSet]:
    """Ranges of `narrow` seeds up to `wide`, for `parametrize`; all but the first are `wide`."""
    ranges = [range(start, min(start + narrow, wide)) for start in range(0, wide, narrow)]
    return [
        pytest.param(
            one, marks=(pytest.mark.wide,) if one.start else (), id=f"{one.start}-{one.stop - 1}"
        )
        for one in ranges
    ]


def _product(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    cases: list[tuple[int, ...]] = [()]
    for length in lengths:
        cases = [(*case, index) for case in cases for index in range(length)]
    return cases
