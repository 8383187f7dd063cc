"""Find which files of a recorded job are not in their places yet.

That takes one listing per task or, where files are uploads, one of all uploads below the places that the
job writes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ray_committer.job_files.abort_uploads import mark
from ray_committer.protocol.manifest import TaskManifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreOperations, pending_uploads
from ray_committer.work.entries import Entry, entries, store_path


def pending_marks(store: StoreOperations, roots: Iterable[str]) -> frozenset[bytes]:
    """A mark for each pending upload below some directories; none on a store with renames."""
    return frozenset(mark(one.path, one.id) for root in {*roots} for one in pending_uploads(store, root))


def entries_left(
    store: StoreOperations, job: JobAttempt, manifest: TaskManifest, pending: frozenset[bytes]
) -> Iterator[Entry]:
    """The entries of a manifest whose files are not moved yet; `pending` is from `pending_marks`."""
    own = manifest.task_attempt_dir
    directory = store_path(own, store.spec) if own else job.tasks
    is_renamed = not store.capabilities.completes_uploads
    there = {status.path for status in store.list_files(directory)} if is_renamed else set()
    for entry in entries(manifest, store.spec):
        upload = entry.upload
        if entry.source in there or (upload and mark(entry.dest, upload.id) in pending):
            yield entry
