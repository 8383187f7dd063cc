"""Batches of work: large enough for a call to another process, and some for every worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ray_committer.executors.base import WorkExecutor

T = TypeVar("T")

LARGEST = 200
_SHARES = 2
"""The rest is always cut into this many pieces per worker, so that the last ones end soon."""


def batches(executor: WorkExecutor, items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Cut `items` into batches, in order: large ones first, then smaller, so that all end together.

    A batch has 200 items at most. It has enough for all threads of a worker, as long as there are
    several items for each thread.
    """
    least = max(1, min(executor.threads, len(items) // (4 * executor.width)))
    low = 0
    while low < len(items):
        share = (len(items) - low) // (_SHARES * executor.width)
        high = low + min(LARGEST, max(least, share))
        yield tuple(items[low:high])
        low = high
