"""Abort the uploads that a job leaves, on a store where a file is an upload until it is completed.

An upload's id is used once, so an abort by a process that slept harms no later job. Which ids are a
job's own is read in its directory, and counts only if the job is still the same after that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ray_committer.errors import ManifestError, PathError, PreflightError
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations, completing
from ray_committer.work.entries import store_path
from ray_committer.work.upload_file import noted_uploads

Upload = tuple[str, str]
"""The path of a file, and the id of its upload."""


def abort_uploads(
    store: StoreOperations, job: JobAttempt, is_meant: Callable[[], bool], *, is_committed: bool
) -> int:
    """Abort the uploads of a job that has ended; return how many were pending; idempotent.

    All files of a committed job are completed, so only what the store lists as pending is looked for.
    Nothing is done if `is_meant` returns False after the job's files were read.
    """
    pending: set[Upload] | None = None
    if is_committed:
        pending = {(one.path, one.id) for one in completing(store).list_uploads(job.destination)}
        if not pending:
            return 0
    own = _own_uploads(store, job)
    if not own or not is_meant():
        return 0
    wanted = sorted(own if pending is None else own & pending)
    return sum(at_once(store, lambda one: completing(store).abort_upload(*one), wanted))


def _own_uploads(store: StoreOperations, job: JobAttempt) -> set[Upload]:
    """The uploads that the job's task attempts have noted, or that its manifests name.

    What cannot be read, or names a place on another store, is left out: an abort must not fail by it.
    """
    entries = list(noted_uploads(store, job.tasks, skips_damaged=True))
    for status in store.list_files(job.manifests):
        if status.name.endswith(MANIFEST_SUFFIX):
            with suppress(FileNotFoundError, ManifestError):
                entries += decode_manifest(store.read(status.path), status.path).files
    found: set[Upload] = set()
    for entry in entries:
        with suppress(PathError, PreflightError):
            found |= {(store_path(entry.d, store.spec), entry.u)} if entry.u else set()
    return found
