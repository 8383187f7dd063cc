"""Requests that must not be repeated blindly: if there is no answer, first check whether it was done.

`put` is the one way in which a job's own files, such as a manifest or ``_SUCCESS``, get their names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ray_committer.errors import StoreUnavailableError
from ray_committer.limits import waiting
from ray_committer.stores.base import StoredState, StoreOperations

ATTEMPTS = 8


def settle(
    request: Callable[[], None],
    is_done: Callable[[], bool] = lambda: False,
    *,
    attempts: int = ATTEMPTS,
) -> None:
    """Make `request`; repeat it while the store does not answer and `is_done` returns False.

    A request that fails if it was already done, such as a rename, needs no `is_done`: its caller checks
    after the failure.
    """
    for attempt in range(1, attempts + 1):
        try:
            request()
        except StoreUnavailableError:
            # Asked only without an answer: after a refusal the caller knows that nothing was done.
            if is_done():
                return
            if attempt == attempts:
                raise
            waiting.sleep(waiting.REQUEST.after(attempt))
        else:
            return


def put(
    store: StoreOperations,
    path: str,
    data: bytes,
    *,
    temporary: str,
    is_written: bool = False,
    attempts: int = ATTEMPTS,
    is_meant: Callable[[], bool] = lambda: True,
) -> None:
    """Put one of a job's own files in place, atomically, whether or not there is one; idempotent.

    Nothing else uses the name `temporary`. With `is_written`, that file already holds the data. A store
    without renames needs no such file: its writes are atomic, and this one names what it replaces. There
    nothing of a job that has ended says that this write is late: so a file is only replaced if, after it
    was looked at, `is_meant` returns True.
    """
    if store.capabilities.completes_uploads:
        _put_at_once(store, path, data, attempts, is_meant)
        return
    if not is_written:
        store.write(temporary, data)
    try:
        settle(
            lambda: store.replace(temporary, path),
            lambda: _read(store, path) == data,
            attempts=attempts,
        )
    except FileNotFoundError:  # an earlier request did this, although it seemed to fail
        if _read(store, path) != data:
            raise


def _put_at_once(
    store: StoreOperations, path: str, data: bytes, attempts: int, is_meant: Callable[[], bool]
) -> None:
    """Write a file in one request, which does nothing if another process has written it meanwhile: then
    that file is looked at, and replaced. Mostly there is none, so it is looked for only then."""
    replaced: StoredState | None = None
    for attempt in range(attempts + 1):
        try:
            settle(
                partial(_advance, store, path, replaced, data.decode()),
                lambda: _read(store, path) == data,
                attempts=attempts,
            )
        except (FileExistsError, FileNotFoundError) as e:
            if _read(store, path) == data:  # by a request without an answer
                return
            # The bucket is gone, or others write all the time: then somebody must look.
            if isinstance(e, FileNotFoundError) or attempt == attempts:
                raise
            current = store.get_status(path)
            replaced = (
                None if current is None or current.is_directory else StoredState("", current.version)
            )
            # After the look at the file: a job that has ended by then must not replace the file of a
            # later one.
            if not is_meant():
                return
        else:
            return


def _advance(store: StoreOperations, path: str, seen: StoredState | None, text: str) -> None:
    store.advance(path, seen, text)


def _read(store: StoreOperations, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None
