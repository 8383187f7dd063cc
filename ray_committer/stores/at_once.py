"""Make several requests at the same time, where each of them waits for a store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ray_committer.stores.base import StoreOperations

THREADS = 16
MANY = 9
"""From how many requests on a commit makes them at the same time. Fewer are soon made one by one."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def at_once(
    store: StoreOperations,
    request: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    least: int = 2,
    threads: int = THREADS,
) -> list[_Result]:
    """The results of a request for each item, in order; one by one if local or fewer than `least`. After
    an error no other request begins."""
    # A local file system answers sooner than a thread starts.
    if store.capabilities.renames_are_local or len(items) < least:
        return list(map(request, items))
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        begun: list[Future[_Result]] = []
        try:
            begun.extend(pool.submit(request, item) for item in items)
            return [each.result() for each in begun]
        except RuntimeError:
            # An interpreter that ends waits for a clean-up, but starts no thread for it.
            if begun:
                raise
        finally:
            for each in begun:
                each.cancel()
    return list(map(request, items))


def streamed(
    store: StoreOperations, request: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[_Result]:
    """`at_once` for very many items with large results, such as manifests: few are held at a time."""
    left = iter(items)
    while chunk := list(itertools.islice(left, THREADS)):
        yield from at_once(store, request, chunk)
