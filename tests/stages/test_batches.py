"""Batches: all items in order, no batch too large, some for everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_committer.stages.batches import LARGEST, batch_size, batches


def executor(width: int) -> Any:
    return SimpleNamespace(width=width)


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 3000))
def test_batches_hold_every_item_in_order(width: int, items: int):
    found = list(batches(executor(width), range(items)))
    assert [item for batch in found for item in batch] == list(range(items))
    assert all(1 <= len(batch) <= LARGEST for batch in found)
    assert len({len(batch) for batch in found[:-1]}) <= 1


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 3000))
def test_everybody_gets_four_or_more(width: int, items: int):
    found = list(batches(executor(width), range(items)))
    assert len(found) >= min(items, 4 * width)
    assert len(found) <= max(8 * width, -(-items // LARGEST))


@pytest.mark.parametrize(
    ("width", "items", "size"),
    [(1, 0, 1), (1, 1, 1), (1, 7, 1), (1, 8, 2), (4, 33, 2), (4, 3200, 200), (4, 10**6, 200)],
)
def test_a_batch_is_at_most_a_quarter_of_a_share(width: int, items: int, size: int):
    assert batch_size(executor(width), items) == size
