"""Shards that overlap are busy once: their seconds add up to those in which any was in progress."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_committer.work.worker import BusyTimes

SHARDS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12)


def busy_seconds(shards: list[tuple[int, int]], worker: str = "worker") -> float:
    """The busy seconds of shards, each given as its begin and its length."""
    busy, total = BusyTimes(), 0.0
    moments = [(begin, 0) for begin, _ in shards] + [(begin + length, 1) for begin, length in shards]
    for moment, ends in sorted(moments):
        if ends:
            total += busy.end(worker, float(moment))
        else:
            busy.begin(worker, float(moment))
    return total


@settings(deadline=None)
@given(SHARDS)
def test_the_busy_seconds_are_those_in_which_any_shard_was_in_progress(shards: list[tuple[int, int]]):
    seconds = {second for begin, length in shards for second in range(begin, begin + length)}
    assert busy_seconds(shards) == pytest.approx(len(seconds))


def test_workers_are_busy_by_themselves():
    busy = BusyTimes()
    busy.begin("one", 0.0)
    busy.begin("other", 1.0)
    assert [busy.end("one", 3.0), busy.end("other", 3.0)] == [3.0, 2.0]
