"""Pieces of work that are worth a call to another process, and leave some for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ray_committer.executors.base import WorkExecutor

T = TypeVar("T")

LARGEST = 200


def batch_size(executor: WorkExecutor, items: int) -> int:
    """How many of `items` one call gets: at most 200, and so few that four calls or more are left for
    each that runs at once."""
    return max(1, min(LARGEST, items // (4 * executor.width)))


def batches(executor: WorkExecutor, items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Cut `items` into batches, in order."""
    size = batch_size(executor, len(items))
    return (tuple(items[low : low + size]) for low in range(0, len(items), size))
