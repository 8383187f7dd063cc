"""Abort the uploads that a job leaves, on a store where a file is an upload until it is completed.

An upload's id is used once, so a late abort harms no later job. Which ids are a job's own is read in its
directory, and counts only if the job is still the same after that. There can be millions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from ray_committer.errors import ManifestError, PathError, PreflightError
from ray_committer.job_files.manifests import read_listed
from ray_committer.places.choose import output_of
from ray_committer.protocol.fingerprints import fingerprint
from ray_committer.protocol.manifest import FileEntry, TaskManifest, decode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt
from ray_committer.stores.at_once import at_once, streamed
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.uploads import pending_uploads
from ray_committer.work.end_upload import abort_pending
from ray_committer.work.entries import store_path
from ray_committer.work.upload_file import SUFFIX, read_notes

BATCH = 1000
"""So many uploads are held, and aborted after one look at the job's state."""

Upload = tuple[str, str]
"""The path of a file, and the id of its upload."""


def abort_uploads(
    store: StoreOperations,
    job: JobAttempt,
    is_meant: Callable[[], bool],
    *,
    is_committed: bool,
    stamp: str | None = None,
) -> int:
    """Abort the uploads of a job that has ended; return how many were pending; idempotent. Of a
    committed job, only what the store lists as pending is looked for. Of an aborted job, a file with its
    `stamp` at the place of an upload is deleted: a completion can have been under way. Nothing more is
    done once `is_meant` returns False, which is asked after files of the job were read."""
    uploads: Iterable[Upload] = job_uploads(store, job, skips_damaged=True)
    if is_committed:
        pending = frozenset(
            mark(upload.path, upload.id) for upload in pending_uploads(store, job.destination)
        )
        if not pending:
            return 0
        uploads = (upload for upload in uploads if mark(*upload) in pending)
    aborted, left = 0, iter(uploads)
    # Asked before each batch: what was read belongs to this job only if its state has not changed since.
    while (batch := list(itertools.islice(left, BATCH))) and is_meant():
        aborted += sum(at_once(store, partial(_end, store, None if is_committed else stamp), batch))
    return aborted


def _end(store: StoreOperations, stamp: str | None, upload: Upload) -> bool:
    """Abort an upload, or delete the file with the `stamp` that it has become; was it pending?"""
    path, number = upload
    if abort_pending(store, path, number):
        return True
    status = store.get_status(path) if stamp is not None else None
    if status is not None and status.stamp == stamp:
        with suppress(FileExistsError):
            store.delete_version(path, status.version)
    return False


def mark(path: str, upload: str) -> bytes:
    """Eight bytes for an upload."""
    return fingerprint(f"{path}\0{upload}")


def job_uploads(
    store: StoreOperations, job: JobAttempt, *, skips_damaged: bool = False
) -> Iterator[Upload]:
    """The uploads that the job's task attempts have noted, or that its manifests name, in no order; some
    perhaps twice. What names a place on another store is left out. `ManifestError` for a note or a
    manifest that cannot be read, unless it `skips_damaged` ones: an abort must not fail by it."""
    if not output_of(store).uploading((job,)):
        return
    copied: set[str] = set()
    for path, files in read_notes(store, job.tasks, skips_damaged=skips_damaged):
        if not path.endswith(SUFFIX) and files:
            # Its manifest names the same uploads as this copy, so they need not be read again.
            copied.add(path.split("/")[-2])
        yield from _places(store, files)
    for manifest in _manifests(store, job, skips_damaged=skips_damaged):
        if manifest.task_attempt_id not in copied:
            yield from _places(store, manifest.files)


def _manifests(
    store: StoreOperations, job: JobAttempt, *, skips_damaged: bool
) -> Iterator[TaskManifest]:
    listed = store.list_files(job.manifests)
    files = [file for file in listed if file.name.endswith(MANIFEST_SUFFIX)]

    def read(status: FileStatus) -> TaskManifest | None:
        try:
            return decode_manifest(read_listed(store, status), status.path)
        except FileNotFoundError:
            return None
        except ManifestError:
            if skips_damaged:
                return None
            raise

    yield from (manifest for manifest in streamed(store, read, files) if manifest is not None)


def _places(store: StoreOperations, files: Iterable[FileEntry]) -> Iterator[Upload]:
    for file in files:
        if file.u:
            with suppress(PathError, PreflightError):
                yield store_path(file.d, store.spec), file.u
