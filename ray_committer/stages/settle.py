"""Requests that must not be repeated blindly: without an answer, look first whether it was done."""

from __future__ import annotations

import time
from collections.abc import Callable

from ray_committer.backoff import backoff_seconds
from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.base import StoreOperations

ATTEMPTS = 8


def settle(request: Callable[[], None], is_done: Callable[[], bool] = lambda: False) -> None:
    """Make `request`, again while the store does not answer and `is_done` does not say that it was done.

    A request that fails when it was done before, as a rename does, needs no `is_done`: who asks for it
    looks when it fails.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            request()
        except StoreUnavailableError:
            if is_done():
                return
            if attempt == ATTEMPTS:
                raise
            time.sleep(backoff_seconds(attempt))
        else:
            return


def put_file(
    store: StoreOperations, temporary: str, path: str, data: bytes, *, is_written: bool = False
) -> None:
    """Put one of the job's own files in place, atomically; idempotent.

    `is_written` tells that `temporary` holds the data.
    """
    if not is_written:
        store.write(temporary, data)
    try:
        settle(lambda: store.replace(temporary, path), lambda: _read(store, path) == data)
    except FileNotFoundError:  # it was done before, by a request whose answer said otherwise
        if _read(store, path) != data:
            raise


def _read(store: StoreOperations, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None
