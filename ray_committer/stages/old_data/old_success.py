"""Take the ``_SUCCESS`` of an earlier job away while the files of this job appear one by one.

It stays until this job is recorded. Then it is put aside in the job's directory, and an undo puts it
back. Its place aside is deleted before the new ``_SUCCESS`` is there: so a process of this job that
wakes up after that cannot take the new one away.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, ManifestError, mark
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.success import attempt_of, success_if_told
from ray_committer.places.choose import needed, old_files_of, places_of
from ray_committer.places.old_files import Old, move_back, replaced_file
from ray_committer.protocol.paths import SUCCESS, JobAttempt, join, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stages.checks.permissions import check_removals
from ray_committer.stages.checks.places import is_taken
from ray_committer.stages.context import JobContext
from ray_committer.stages.take_away import is_still, remove_husk
from ray_committer.stores.base import StoreOperations

PUT_BACK_ROUNDS = 10
"""The rounds in which the place aside is emptied, while processes that wake up put the file there."""


def forget_earlier_success(store: StoreOperations, job: JobAttempt, first: Seen) -> None:
    """Delete the ``_SUCCESS`` of an earlier job of this id, because it would show that this job, which
    was just set up, is committed; `CommitRecordExistsError` if it is of another attempt of this job.
    Only what was read while this job was there is deleted, by version or put aside."""
    if not _is_of_id(job, success_if_told(store, job.destination)):
        return
    place, places = _place_at_set_up(job, first), places_of(store)
    if not places.deletes_versions:
        store.mkdirs(parent(place))
    with suppress(FileNotFoundError, FileExistsError, IsADirectoryError, ManifestError):
        # Read first: if this job is still there after that, it was read before its commit (D8).
        data, version = places.read_version(job.success)
        if not is_still(store, job, first):
            remove_husk(store, job)
        elif _is_of_id(job, decode_success(data, job.success)):
            if places.deletes_versions:
                store.delete_version(job.success, version)
            else:
                old_files_of(store).take(job.success, place)
                _return_success(store, job, place, data)


def return_success_of_another(store: StoreOperations, job: JobAttempt, aborted: Seen) -> None:
    """Put back the ``_SUCCESS`` of another job that the set-up of this one took by mistake before it
    died, unless a newer one is there; called before the job is deleted."""
    place = _place_at_set_up(job, aborted)
    if places_of(store).deletes_versions or store.get_status(place) is None:
        return
    with suppress(FileNotFoundError, FileExistsError, IsADirectoryError, ManifestError):
        success = decode_success(store.read(place), place)
        if success is None or success.job_id != job.job_id:
            move_back(store, place, job.success)


def _place_at_set_up(job: JobAttempt, state: Seen) -> str:
    return join(job.undone(state.state.stamp), SUCCESS)


def _is_of_id(job: JobAttempt, success: SuccessData | None) -> bool:
    if success is None or success.job_id != job.job_id:
        return False
    if job.number > 0 or attempt_of(success, job.number) > 0:
        raise CommitRecordExistsError(
            f"{mark(job.directory)}: another attempt of job {job.job_id} is committed",
            f"its files are in {mark(job.destination)}",
        )
    return True


def _return_success(store: StoreOperations, job: JobAttempt, place: str, meant: bytes) -> None:
    """Delete what was put aside or, if it is not what was `meant`, put it back beside no newer one."""
    aside = store.get_status(place)
    if aside is None or (not aside.is_directory and store.read(place) == meant):
        store.delete_directory(parent(place))
        return
    with suppress(FileExistsError):
        move_back(store, place, job.success)
    store.delete_directory(parent(place))


def find_old_success(context: JobContext, replaced_roots: Collection[str]) -> ReplacedFile | None:
    """Return the ``_SUCCESS`` that this job will replace, if any. `PreflightError` if it cannot be put
    aside. `CommitConflictError` for a directory in its place that the job does not replace."""
    if not context.options.mark_success:
        return None
    status = context.old_files.look(context.job.success)
    if status is None:
        return None
    if not status.is_directory:
        # Elsewhere this is a request for one file, which who writes there can also remove.
        if context.store.capabilities.renames_are_local:
            check_removals(context, (status.path,))
        return replaced_file(status)
    if needed(context.store, (status.path,)) and context.job.destination not in replaced_roots:
        raise is_taken({status.path: "is a directory where the job needs a file"})
    return None


def success_aside(context: JobContext, record: CommitRecord) -> list[Old]:
    """Return the old ``_SUCCESS`` with its path aside, or nothing if it is not put aside."""
    if record.success is None or not context.old_files.can_take:
        return []
    return [(record.success, _place_aside(context, record))]


def _place_aside(context: JobContext, record: CommitRecord) -> str:
    return join(context.job.aside(record.nonce), "success", SUCCESS)


def make_place_of_success(context: JobContext, record: CommitRecord) -> None:
    """Make the place aside, before the job is recorded; a store without directories needs none."""
    places = (parent(place) for _, place in success_aside(context, record))
    for directory in needed(context.store, places):
        context.store.mkdirs(directory)


def put_old_success_aside(context: JobContext, record: CommitRecord) -> None:
    """Put the old ``_SUCCESS`` aside, unless another job has replaced it; idempotent."""
    if record.success is not None:
        with suppress(FileExistsError, FileNotFoundError):
            context.old_files.clear((record.success, _place_aside(context, record)))


def put_old_success_back(context: JobContext, record: CommitRecord) -> None:
    """Move the old ``_SUCCESS`` back from its place aside, and remove that place; idempotent. Only an
    empty place is removed: a process that wakes up may put the file there again."""
    for old in success_aside(context, record):
        place = parent(old[1])
        for _ in range(PUT_BACK_ROUNDS):
            try:
                context.old_files.put_back(old)
            except FileExistsError:  # one of another job was taken by mistake, and a newer one is there
                context.store.delete_file(old[1])
            context.store.remove_empty_directory(place)
            if context.store.get_status(place) is None:
                break
        else:
            raise CommitStateUnknownError(
                f"{mark(place)}: another process keeps putting files there",
                "the commit is half undone, so run the same command again",
            )


def delete_old_success(context: JobContext, record: CommitRecord) -> None:
    """Delete the place aside with the old ``_SUCCESS``; idempotent."""
    for _, place in success_aside(context, record):
        context.store.delete_directory(parent(place))
