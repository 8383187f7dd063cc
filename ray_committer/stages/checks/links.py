"""Check, before the record, that this user can rename the files, where a rename needs a hard link.

Where neither the kernel nor the file system can rename without replacing, as on NFS, a file is linked to
its new name. ``fs.protected_hardlinks`` denies such links for files of other users.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import SHOWN, PreflightError, mark, some_of
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.work.batches import batches
from ray_committer.work.entries import entries
from ray_committer.work.worker import Worker

Denied = tuple[int, list[str]]
"""The number of files, and the first of them."""


def check_links(context: JobContext, manifests: Sequence[ManifestRef]) -> list[PreflightError]:
    """The error, if any, that names the files that this user has no permission to link.
    `StoreRefusedError` if nothing can be linked. Where renames need no link, the check costs nothing."""
    if not context.store.links_files(context.job.directory):
        return []
    groups = context.executor.run(_denied_in_batch, batches(context.executor, manifests))
    denied = sorted((batch for group in groups for batch in group), key=lambda batch: batch[1])
    files = sum(count for count, _ in denied)
    if not files:
        return []
    named = some_of([mark(path) for _, paths in denied for path in paths], files)
    error = PreflightError(
        f"{named}: {files} files of other users cannot be linked by this user "
        f"(fs.protected_hardlinks), and this file system needs links to rename without replacing",
        "nothing was changed: commit as the user who wrote the files, or give this user write "
        "permission for them",
    )
    return [error]


def _denied_in_batch(worker: Worker, refs: tuple[ManifestRef, ...]) -> list[Denied]:
    """Work: the files of some manifests that this process has no permission to link."""
    return [denied for denied in worker.map(partial(_denied_in_manifest, worker), refs) if denied[0]]


def _denied_in_manifest(worker: Worker, ref: ManifestRef) -> Denied:
    loaded = entries(worker.recorded(ref).manifest, worker.store.spec)
    denied = worker.store.denied_links([entry.source for entry in loaded])
    return len(denied), sorted(denied)[:SHOWN]
