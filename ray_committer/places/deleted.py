"""What an abort deletes, as far as it is known without a request for each file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ray_committer.places.base import tasks_of
from ray_committer.places.choose import places_of
from ray_committer.protocol.paths import FROZEN_TASKS, TAKEN_BACK_SUFFIX, UNDONE, JobAttempt, join
from ray_committer.stores.base import FileStatus, StoreOperations


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted of a job attempt.

    files, bytes: of its tasks; None if the store deletes a directory without showing what is in it.
    moved: the files that its commit had moved and that were taken back; None if they were not counted.
    uploads: how many were aborted.
    """

    files: int | None = None
    bytes: int | None = None
    moved: int | None = None
    uploads: int = 0


NOTHING = Deleted(files=0, bytes=0, moved=0)


def count_deleted(store: StoreOperations, gone: JobAttempt) -> Deleted:
    """Count the files of a job attempt that is about to be deleted, and of its undo, where a listing is
    small beside the deletion: in the kernel, and on a store that deletes each file by a request."""
    if not places_of(store).can_count(gone.directory):
        return Deleted()
    undone = store.list_files(join(gone.directory, UNDONE))
    moved = [
        status
        for status in undone
        if status.name.endswith(TAKEN_BACK_SUFFIX) and f"/{FROZEN_TASKS}" not in status.path
    ]
    every = [file for place in tasks_of(store, gone) for file in store.list_files(place.tasks)] + undone
    return Deleted(files=len(every) - len(moved), bytes=_bytes(every) - _bytes(moved), moved=len(moved))


def _bytes(files: Iterable[FileStatus]) -> int:
    return sum(file.size for file in files)
