"""Batches: all items in order, no batch too large, all end together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_committer.protocol.plan import LARGEST_BATCH
from ray_committer.work.batches import batches


def executor(width: int, threads: int = 1) -> Any:
    return SimpleNamespace(width=width, threads=threads)


def sizes(width: int, threads: int, items: int) -> list[int]:
    return [len(batch) for batch in batches(executor(width, threads), range(items))]


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 64), st.integers(0, 3000))
def test_batches_hold_every_item_in_order(width: int, threads: int, items: int):
    found = list(batches(executor(width, threads), range(items)))
    assert [item for batch in found for item in batch] == list(range(items))
    assert all(1 <= len(batch) <= LARGEST_BATCH for batch in found)


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 3000))
def test_batches_do_not_grow(width: int, threads: int, items: int):
    found = sizes(width, threads, items)
    assert found == sorted(found, reverse=True)
    a_worker = 1 if items <= threads * width else 2
    assert len(found) >= min(-(-items // (-(-items // width))), a_worker * width)


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(0, 3000))
def test_threads_that_take_batches_end_within_two_items_of_each_other(width: int, items: int):
    ends = [0] * width
    for size in sizes(width, 1, items):
        ends[ends.index(min(ends))] += size
    assert max(ends) - min(ends) <= 2


@settings(deadline=None)
@given(st.integers(1, 16), st.integers(1, 64), st.integers(0, 3000))
def test_a_worker_has_work_for_its_threads_while_there_are_four_batches_for_each(
    width: int, threads: int, items: int
):
    found = sizes(width, threads, items)
    least = min(threads, items // (4 * width))
    assert all(size >= least for size in found[:-1])


@pytest.mark.parametrize(
    ("width", "threads", "items", "found"),
    [
        (1, 1, 8, [4, 2, 1, 1]),
        (2, 1, 12, [3, 2, 1, 1, 1, 1, 1, 1, 1]),
        (2, 64, 40, [20, 20]),
        (1, 1, 1_000, [LARGEST_BATCH] * 4 + [100, 50, 25, 12, 6, 3, 2, 1, 1]),
    ],
)
def test_large_batches_come_first_so_that_there_are_few(
    width: int, threads: int, items: int, found: list[int]
):
    assert sizes(width, threads, items) == found
