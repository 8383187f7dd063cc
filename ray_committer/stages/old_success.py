"""Take the ``_SUCCESS`` of an earlier job away while the files of this job appear one by one.

It stays until this job is recorded, because a job that fails before that changes nothing. Then it is put
aside in the job's directory, and an undo puts it back. Its place aside is deleted after the job is
committed, and before the new ``_SUCCESS`` is there: a process of this job that wakes up after that finds
no such directory, and so it cannot take the new one away.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from contextlib import suppress

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, ManifestError
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.success import attempt_of, success_if_told
from ray_committer.places.aside import move_back, take_aside
from ray_committer.places.choose import needed
from ray_committer.places.old_files import (
    Old,
    can_put_aside,
    is_unchanged,
    move_stranger_back,
    put_aside,
    put_back,
    replaced_file,
)
from ray_committer.protocol.paths import SUCCESS, JobAttempt, join, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stages.checks.obstacles import refuse
from ray_committer.stages.checks.places import is_taken
from ray_committer.stages.checks.removals import check_removals
from ray_committer.stages.context import JobContext
from ray_committer.stages.take_away import is_still, remove_husk
from ray_committer.stores.base import StoredState, StoreOperations, Versions

PUT_BACK_ROUNDS = 10
"""The rounds in which the place aside is emptied, while processes that wake up put the file there."""


def forget_earlier_success(store: StoreOperations, job: JobAttempt, seen: Seen) -> None:
    """Delete the ``_SUCCESS`` of an earlier job of this id, because it would show that this job, which
    was just set up, is committed.

    `CommitRecordExistsError` if it belongs to another attempt of this job. It can be replaced by that of
    another job at any moment. So only what was read while this job was there is deleted, and nothing
    else: by its version, or after it was put aside and read there.
    """
    if not _is_of_id(job, success_if_told(store, job.destination)):
        return
    place, is_bound = _place_at_set_up(job, seen), _is_bound(store)
    if not is_bound:
        store.mkdirs(parent(place))
    with suppress(FileNotFoundError, FileExistsError, IsADirectoryError, ManifestError):
        data, version = _read(store, job.success)
        if not is_still(store, job, seen):
            remove_husk(store, job)
        elif _is_of_id(job, decode_success(data, job.success)):
            if is_bound:
                store.delete_version(job.success, version)
            else:
                take_aside(store, job.success, place)
                _return_success(store, job, place, data)


def return_success_of_another(store: StoreOperations, job: JobAttempt, seen: Seen) -> None:
    """Put back the ``_SUCCESS`` of another job that the set-up of this one took by mistake before it
    died, unless a newer one is there; called before the job is deleted."""
    place = _place_at_set_up(job, seen)
    if _is_bound(store) or store.get_status(place) is None:
        return
    with suppress(FileNotFoundError, FileExistsError, IsADirectoryError, ManifestError):
        found = decode_success(store.read(place), place)
        if found is None or found.job_id != job.job_id:
            move_back(store, place, job.success)


def _place_at_set_up(job: JobAttempt, seen: Seen) -> str:
    return join(job.undone(seen.state.stamp), SUCCESS)


def _is_bound(store: StoreOperations) -> bool:
    """Whether a deletion can name a version."""
    capabilities = store.capabilities
    return capabilities.versions is not Versions.NONE or not capabilities.moves_directories


def _is_of_id(job: JobAttempt, success: SuccessData | None) -> bool:
    if success is None or success.job_id != job.job_id:
        return False
    if job.number > 0 or attempt_of(success, job.number) > 0:
        raise CommitRecordExistsError(
            f"{job.directory}: another attempt of job {job.job_id} is committed",
            f"its files are in {job.destination}",
        )
    return True


def _read(store: StoreOperations, path: str) -> tuple[bytes, str | None]:
    """Read a file, and its version if the store has one: what is written meanwhile has another."""
    if store.capabilities.moves_directories:
        status = store.get_status(path)
        return store.read(path), status.version if status is not None else None
    found = store.read_state(path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return found.text.encode(errors="surrogateescape"), found.version


def _return_success(store: StoreOperations, job: JobAttempt, place: str, meant: bytes) -> None:
    """Delete what was put aside, or put it back if it is not what was `meant`, unless a newer one is
    there."""
    aside = store.get_status(place)
    if aside is None or (not aside.is_directory and store.read(place) == meant):
        store.delete_directory(parent(place))
        return
    with suppress(FileExistsError):
        move_back(store, place, job.success)
    store.delete_directory(parent(place))


def find_old_success(context: JobContext, replaced_roots: Collection[str]) -> ReplacedFile | None:
    """Return the ``_SUCCESS`` that this job will replace by its own, if there is one.

    `CommitConflictError` for a directory in its place that is not among the data that the job replaces.
    `PreflightError` if it could not be put aside.
    """
    if not context.options.mark_success:
        return None
    if context.store.capabilities.completes_uploads:  # one request, which also shows the version
        return _as_object(context.job.success, context.store.read_state(context.job.success))
    status = context.store.get_status(context.job.success)
    if status is None:
        return None
    if not status.is_directory:
        if context.store.capabilities.renames_are_local:  # elsewhere who writes there can also remove it
            refuse(check_removals(context, (status.path,)))
        return replaced_file(status)
    if needed(context.store, (status.path,)) and context.job.destination not in replaced_roots:
        raise is_taken({status.path: "is a directory where the job needs a file"})
    return None


def _as_object(path: str, found: StoredState | None) -> ReplacedFile | None:
    if found is None:
        return None
    size = len(found.text.encode(errors="surrogateescape"))
    return ReplacedFile(path, size, etag=found.version, version=found.version)


def success_aside(context: JobContext, record: CommitRecord) -> list[Old]:
    """Return the old ``_SUCCESS`` with its path aside, or nothing if it is not put aside."""
    if record.success is None or not can_put_aside(context.store):
        return []
    return [(record.success, join(context.job.aside(record.nonce), "success", SUCCESS))]


def make_place_of_success(context: JobContext, record: CommitRecord) -> None:
    """Make the place aside, before the job is recorded; a store without directories needs none."""
    places = (parent(place) for _, place in success_aside(context, record))
    for directory in needed(context.store, places):
        context.store.mkdirs(directory)


def put_old_success_aside(context: JobContext, record: CommitRecord) -> None:
    """Put the old ``_SUCCESS`` aside, unless another job has replaced it; idempotent."""
    store = context.store
    with suppress(FileExistsError, FileNotFoundError):
        if record.success is None:
            return
        if store.capabilities.completes_uploads:  # its version is a condition of the request
            store.delete_version(record.success.path, record.success.version)
            return
        if not is_unchanged(store, record.success):
            return
        if not can_put_aside(store):
            store.delete_file(record.success.path)
        for old in success_aside(context, record):
            put_aside(store, old)
            move_stranger_back(store, old)


def put_old_success_back(context: JobContext, record: CommitRecord) -> None:
    """Move the old ``_SUCCESS`` back from its place aside, and remove that place; idempotent.

    Until the place is gone, a process that wakes up may put the file there again, so the place is only
    removed when it is empty.
    """
    for old in success_aside(context, record):
        place = parent(old[1])
        for _ in range(PUT_BACK_ROUNDS):
            try:
                put_back(context.store, old)
            except FileExistsError:  # one of another job was taken by mistake, and a newer one is there
                context.store.delete_file(old[1])
            context.store.remove_empty_directory(place)
            if context.store.get_status(place) is None:
                break
        else:
            raise CommitStateUnknownError(
                f"{place}: another process keeps putting files there",
                "the commit is half undone, so run the same command again",
            )


def delete_old_success(context: JobContext, record: CommitRecord) -> None:
    """Delete the place aside with the old ``_SUCCESS``; idempotent."""
    for _, place in success_aside(context, record):
        context.store.delete_directory(parent(place))
