"""Take over a job of Hadoop's S3A committer: its pendingsets become the manifests of a job here.

The job then is one that Hadoop set up and whose tasks have committed: the commit gives it its state.
What the tasks left below ``__magic`` goes after the job is committed or aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from ray_committer.errors import ManifestError
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.success import is_noted
from ray_committer.places.choose import output_of, own_files_of
from ray_committer.protocol.magic_paths import (
    PENDINGSET,
    MagicJob,
    attempt_directory,
    attempt_of,
    tasks_directory,
)
from ray_committer.protocol.manifest import FileEntry, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt, parent
from ray_committer.protocol.pendingsets import decode_pending, decode_pendingset
from ray_committer.protocol.state import Phase
from ray_committer.stores.at_once import at_once, streamed
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.end_upload import end_upload
from ray_committer.work.entries import store_path


def adopt_job(store: StoreOperations, left: JobStatus) -> None:
    """Write a manifest for each pendingset of a job; idempotent. Nothing is written once the job's
    commit has declared what it writes, because then its manifests count, and nothing if ``_SUCCESS``
    says that the job is committed. `ManifestError` for a pendingset that must not be committed."""
    job = new_job_attempt(left.job.destination, left.job.job_id, left.job.number)
    current = read_state(store, job)
    if current.phase is Phase.OPEN if current else not is_noted(store, job):
        store.mkdirs(job.manifests)
        at_once(store, partial(_adopt, store, job), left.manifests or ())


def _adopt(store: StoreOperations, job: JobAttempt, pendingset: FileStatus) -> None:
    magic = MagicJob(store.spec.authority, job.destination, job.job_id)
    manifest = decode_pendingset(store.read(pendingset.path), pendingset.path, magic)
    path = job.manifest(pendingset.name.removesuffix(PENDINGSET))
    own_files_of(store).put(path, encode_manifest(manifest), temporary=f"{path}.tmp")


def remove_left(store: StoreOperations, job: JobAttempt, *, is_committed: bool) -> tuple[int, list[str]]:
    """Remove what S3A left of a job that has ended, and abort the uploads that it names; idempotent.
    Returns how many were pending, and the paths of files that S3A had completed before.
    If it `is_committed`, all uploads of this attempt's pendingsets are, and other attempts go."""
    magic = MagicJob(store.spec.authority, job.destination, job.job_id)
    aborted = 0
    visible: list[str] = []
    for directory in output_of(store).uploading(magic.directories):
        files = store.list_files(directory)
        chosen = [
            file for file in files if is_committed or attempt_of(directory, file.path) == job.number
        ]
        if files and not chosen:
            continue
        uploads = _uploads(store, magic, chosen, job.number if is_committed else None)
        for was_aborted, path in streamed(store, partial(_end, store), uploads):
            aborted += was_aborted
            visible += [path] if path is not None else []
        place = directory if len(chosen) == len(files) else attempt_directory(directory, chosen[0].path)
        for tasks in sorted(
            {attempts for file in chosen if (attempts := tasks_directory(directory, file.path))}
        ):
            store.delete_directory(tasks)  # the pendingsets last: by them this is found again
        store.delete_directory(place)
        store.remove_empty_directory(parent(directory))
    return aborted, visible


def _end(store: StoreOperations, upload: FileEntry) -> tuple[bool, str | None]:
    """Abort an upload; return whether that ended it, and the path of its file if it was completed."""
    path = store_path(upload.d, store.spec)
    was_pending, status = end_upload(store, path, upload.u or "", store.get_status(path))
    # An upload that S3A's committer had completed before this one was asked is the job's file if it has
    # the entity tag that the task noted.
    is_ours = status is not None and upload.e in (None, status.etag)
    return was_pending and not is_ours, path if is_ours else None


def _uploads(
    store: StoreOperations, magic: MagicJob, files: Sequence[FileStatus], committed: int | None
) -> Iterator[FileEntry]:
    """The uploads that some files name, but not the committed attempt's; skips what cannot be read."""

    def read(status: FileStatus) -> list[FileEntry]:
        place = magic.place_of(status.path)
        if place is None or (place.task_id is not None and place.attempt == committed):
            return []
        with suppress(ManifestError, FileNotFoundError):
            return uploads_in(store, magic, status)
        return []

    for entries in streamed(store, read, files):
        yield from entries


def uploads_in(store: StoreOperations, magic: MagicJob, status: FileStatus) -> list[FileEntry]:
    """The uploads that a file of a job names; `ManifestError` if it is damaged, ``FileNotFoundError`` if
    it is gone. A task leaves an empty file beside each file that names an upload."""
    place = magic.place_of(status.path)
    if place is None or not status.size:
        return []
    data = store.read(status.path)
    if place.task_id is not None:
        return decode_pendingset(data, status.path, magic).files
    return [decode_pending(data, status.path, magic)]
