"""Put one file in place by its action; only this module of workers knows which actions there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Proof
from ray_committer.stores.base import StoreOperations
from ray_committer.work.complete_entry import complete_entry, require_pending
from ray_committer.work.rename_entry import rename_entry, require_source


def publish_entry(
    store: StoreOperations,
    entry: Entry,
    attempts: int,
    old: ReplacedFile | None = None,
    *,
    on_retry: Callable[[], None] = lambda: None,
) -> Proof | None:
    """Put one file in place; None if that was done now, else the proof that it was done before. `old` is
    the recorded file that this one replaces. `on_retry` is called before a further request.
    `CommitConflictError` if another file is at the destination. `CommitStateUnknownError` if it is lost,
    cannot be moved, or is not shown. `OldFileStaysError` if `old` cannot be replaced."""
    match entry:
        case Rename():
            return rename_entry(store, entry, attempts, old, on_retry=on_retry)
        case CompleteUpload():
            return complete_entry(store, entry, attempts, old, on_retry=on_retry)
    assert_never(entry)


def require_unpublished(store: StoreOperations, entry: Entry) -> None:
    """`CommitStateUnknownError` unless the task's file is where the task wrote it."""
    match entry:
        case Rename():
            require_source(store, entry)
        case CompleteUpload():
            require_pending(store, entry)
        case _:
            assert_never(entry)
