"""Make several requests of a reader at the same time, where each of them waits for a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ray_committer.stores.base import StoreOperations

THREADS = 16

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def at_once(
    store: StoreOperations, request: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """The results of a request for each item, in order; one after the other on local files."""
    if store.capabilities.renames_are_local or len(items) < 2:
        return list(map(request, items))
    with ThreadPoolExecutor(min(THREADS, len(items))) as pool:
        return list(pool.map(request, items))
