"""End what tasks of Spark leave on S3, where they write through Hadoop's S3A client.

The client describes each closed file in a file ``.pending`` below ``__magic``. A task attempt that
commits, or fails, removes its own. If an executor was killed, they are still there, and of the file that
it was writing, only the name shows whose upload it is: Spark puts the id of the job into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ray_committer.errors import ManifestError
from ray_committer.job_files.abort_uploads import Upload
from ray_committer.job_files.listing import list_if_there, s3a_attempts
from ray_committer.job_files.others import goes_on
from ray_committer.places.choose import output_of
from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.paths import JobAttempt, parent
from ray_committer.protocol.pendingsets import decode_pending
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.uploads import pending_uploads
from ray_committer.work.end_upload import abort_pending
from ray_committer.work.entries import store_path

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of the ids that Spark gives its jobs; other ids are too short to be found in names."""


def end_spark_uploads(store: StoreOperations, job: JobAttempt, is_meant: Callable[[], bool]) -> int:
    """Abort the uploads that Spark's tasks left of a job that has ended, and remove the files that
    describe them; return how many were pending; idempotent. Nothing is done if `is_meant` returns False
    after the uploads were listed, or if another attempt, with the same names, is not aborted."""
    uploads, there = find_spark_uploads(store, job)
    if not (uploads or there) or not is_meant() or goes_on(store, job):
        return 0
    aborted = at_once(store, lambda upload: abort_pending(store, *upload), sorted(uploads))
    for directory in there:
        # After the uploads are gone: by these files they are found again if this process dies here.
        store.delete_listed((directory,), is_meant)
        store.remove_empty_directory(parent(directory))
    return sum(aborted)


def find_spark_uploads(store: StoreOperations, job: JobAttempt) -> tuple[set[Upload], list[str]]:
    """The uploads that Spark's tasks left of a job, and the directories of the files that describe them.
    None of a job of which another attempt is there that Hadoop's committer left."""
    if not _UUID.fullmatch(job.job_id):
        return set(), []
    magic = MagicJob(store.spec.authority, job.destination, job.job_id)
    directories = output_of(store).uploading(magic.directories)
    # Also a directory of which only the mark is left.
    there = [directory for directory in directories if list_if_there(store, directory) is not None]
    left = s3a_attempts(store, job.destination, job.job_id) if there else []
    # Of a job of Hadoop's: Spark makes no second one.
    if any(status.job.number != job.number for status in left):
        return set(), []
    uploads = {
        (upload.path, upload.id)
        for upload in pending_uploads(store, job.destination)
        if f"-{job.job_id}" in upload.path.rpartition("/")[2]
    }
    for directory in there:
        described = at_once(store, partial(_described, store, magic), store.list_files(directory))
        uploads |= {upload for upload in described if upload is not None}
    return uploads, there


def _described(store: StoreOperations, magic: MagicJob, status: FileStatus) -> Upload | None:
    """The upload that a file ``.pending`` describes; None for any other file, or if it is damaged."""
    place = magic.place_of(status.path)
    if place is None or place.task_attempt_id is None:
        return None
    with suppress(FileNotFoundError, ManifestError):
        entry = decode_pending(store.read(status.path), status.path, magic)
        return store_path(entry.d, store.spec), entry.u or ""
    return None
