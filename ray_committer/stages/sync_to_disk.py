"""Force what a commit did to disk, in the order that counts, so that a power cut takes nothing back.

A file system acknowledges a rename long before it is on the disk, and need not write two of them in
order. So manifests are forced before the record that names them, the names of new files before an old
file is removed, and all of that before the commit point. One request a directory, none a file: the
content of data files is for who writes them to force.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from ray_committer.executors.base import Work
from ray_committer.protocol.paths import ancestors, join, parent
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.worker import Worker, kept_name
from ray_committer.stores.base import StoreOperations, sync

Paths = tuple[str, ...]


def sync_manifests(context: JobContext, manifests: Sequence[ManifestRef]) -> None:
    """Force the manifests to disk, and the names that lead to them."""
    if context.syncs:
        files = [join(context.job.frozen, kept_name(manifest)) for manifest in manifests]
        _run(context, _sync_files, batches(context.executor, files))
        _run(context, _sync_directories, [(context.job.frozen,)])


def sync_destinations(context: JobContext) -> None:
    """Force to disk the names in every destination directory; the coordinator must know them."""
    if context.syncs:
        width = context.executor.width
        shares = (tuple(context.executor.directories.share(number, width)) for number in range(width))
        _run(context, _sync_directories, chain([(context.job.destination,)], shares))


def sync_replaced(context: JobContext, record: CommitRecord) -> None:
    """Force to disk that the old files are gone, or others in their place, lest a power cut brings them
    back."""
    if context.syncs:
        old = (*record.replaced, *record.overwritten)
        directories = list(dict.fromkeys(parent(file.path) for file in old))
        _run(context, _sync_what_is_there, batches(context.executor, directories))


def sync_taken_back(context: JobContext) -> None:
    """Force to disk that no file of the job is at its destination any more."""
    if context.syncs:
        width = context.executor.width
        shares = (tuple(context.executor.directories.share(number, width)) for number in range(width))
        _run(context, _sync_what_is_there, chain([(context.job.destination,)], shares))


def sync_taken_away(context: JobContext) -> None:
    """Force to disk that the job's directory has another name, before anything in it is deleted."""
    if context.syncs:
        for path in (context.job.temporary, context.job.job_directory):
            _sync_unless(FileNotFoundError, context.store, path)


def _run(context: JobContext, work: Work[None], groups: Iterable[Paths]) -> None:
    for _ in context.executor.run(work, context.until_cancelled(groups)):
        pass
    context.check_cancelled()


def _sync_files(worker: Worker, paths: Paths) -> None:
    """Work: force some files to disk."""
    for _ in worker.map(partial(sync, worker.store), paths):
        pass


def _sync_directories(worker: Worker, paths: Paths) -> None:
    """Work: force the names in some directories to disk, and those that lead there, each once."""
    above = {one for path in paths for one in ancestors(path, "/")}.difference(paths)
    for _ in worker.map(partial(sync, worker.store), paths):
        pass
    for _ in worker.map(partial(_sync_unless, PermissionError, worker.store), above):
        pass  # in a directory that may not be read this job has made none


def _sync_what_is_there(worker: Worker, paths: Paths) -> None:
    """Work: force the names in some directories to disk, of which some may be gone."""
    for _ in worker.map(partial(_sync_unless, FileNotFoundError, worker.store), paths):
        pass


def _sync_unless(error: type[OSError], store: StoreOperations, path: str) -> None:
    with suppress(error):
        sync(store, path)
