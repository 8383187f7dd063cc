"""Batches of work: large enough for a call to another process, and some for every worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ray_committer.executors.base import WorkExecutor
from ray_committer.protocol.plan import batch_sizes

T = TypeVar("T")


def batches(executor: WorkExecutor, items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Cut `items` into batches, in order."""
    low = 0
    for size in batch_sizes(len(items), threads=executor.threads, width=executor.width):
        yield tuple(items[low : low + size])
        low += size
