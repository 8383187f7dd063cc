"""Pieces of work that are worth a call to another process, and leave some for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ray_committer.executors.base import WorkExecutor

T = TypeVar("T")

LARGEST = 200
_SHARES = 2
"""What is left is cut into so many pieces per worker, so that nobody waits long for the last one."""


def batches(executor: WorkExecutor, items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Cut `items` into batches, in order: large ones first, then smaller, so that all end together.

    A batch has 200 items at most, and enough for the threads of a worker while there are several for
    each.
    """
    least = max(1, min(executor.threads, len(items) // (4 * executor.width)))
    low = 0
    while low < len(items):
        share = (len(items) - low) // (_SHARES * executor.width)
        high = low + min(LARGEST, max(least, share))
        yield tuple(items[low:high])
        low = high
