"""Batches of work and ranges of packs: large enough for a call, and some for every worker.

Also the work that several stages do on batches of directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from ray_committer.executors.base import WorkExecutor
from ray_committer.protocol.pack import Pack, PackRange
from ray_committer.protocol.plan import LARGEST_BATCH, batch_sizes
from ray_committer.work.worker import Worker

T = TypeVar("T")


def batches(executor: WorkExecutor, items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Cut `items` into batches, in order."""
    return (tuple(items[place]) for place in places_of_batches(executor, len(items)))


def places_of_batches(executor: WorkExecutor, number: int) -> Iterator[slice]:
    """Where a `number` of items is cut into batches."""
    low = 0
    for size in batch_sizes(number, threads=executor.threads, width=executor.width):
        yield slice(low, min(low + size, number))
        low += size


def ranges(executor: WorkExecutor, packs: Sequence[Pack]) -> Iterator[PackRange]:
    """Cut the entries of packs into ranges as large as batches, in order, each within a pack."""
    files = sum(pack.files for pack in packs)
    sizes = batch_sizes(files, threads=executor.threads, width=executor.width)
    for index, pack in enumerate(packs):
        low = 0
        while low < pack.files:
            high = min(pack.files, low + next(sizes, LARGEST_BATCH))
            yield PackRange(index, pack, low, high)
            low = high


def groups(items: Iterable[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """Cut `items`, each with its number of files, into groups of up to `most` files, or of one item."""
    group, files = list[T](), 0
    for item, count in items:
        if group and files + count > most:
            yield group
            group, files = [], 0
        group.append(item)
        files += count
    if group:
        yield group


def make_directories(worker: Worker, paths: tuple[str, ...]) -> None:
    """Work: make some directories."""
    worker.for_each(worker.store.mkdirs, paths)


def delete_directories(worker: Worker, paths: tuple[str, ...]) -> None:
    """Work: delete some directories and all that is in them."""
    worker.for_each(worker.store.delete_directory, paths)
