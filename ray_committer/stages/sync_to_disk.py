"""Force a commit to disk in the necessary order, so that a power cut cannot undo it.

A file system may write two renames in another order. So packs are forced to disk before the record that
names them, names of new files before an old file is removed, and all of this before the commit
point. This takes one request per directory; writers of data files force their content themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from ray_committer.executors.base import Work
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import ancestors, join, parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreOperations
from ray_committer.work.batches import batches
from ray_committer.work.worker import Worker

Paths = tuple[str, ...]


def sync_packs(context: JobContext, packs: Sequence[Pack]) -> None:
    """Force the packs to disk, and the names that lead to them."""
    if context.syncs:
        files = [join(context.job.packs, pack.ref.name) for pack in packs]
        _run(context, _sync_files, batches(context.executor, files))
        _run(context, _sync_directories, [(context.job.packs,)])


def sync_destinations(context: JobContext) -> None:
    """Force the names in every destination directory to disk; the coordinator must know them."""
    if context.syncs:
        _run(context, _sync_directories, _written_to(context))


def sync_replaced(context: JobContext, record: CommitRecord) -> None:
    """Force the removal or replacement of old files to disk; else a power cut may bring them back."""
    if context.syncs:
        directories = list(dict.fromkeys(parent(file.path) for file in record.old_files))
        _run(context, _sync_what_is_there, batches(context.executor, directories))


def sync_kept(context: JobContext, directories: Sequence[str]) -> None:
    """Force the names of kept files to disk, in the directories in which they are kept now."""
    if context.syncs:
        _run(context, _sync_what_is_there, batches(context.executor, directories))


def sync_place(context: JobContext, place: str) -> None:
    """Force the directories of an undo to disk, before the state that names their place."""
    if context.syncs:
        _run(context, _sync_directories, [(place,)])


def sync_taken_back(context: JobContext) -> None:
    """Force to disk that no file of the job is still at its destination."""
    if context.syncs:
        _run(context, _sync_what_is_there, _written_to(context))


def sync_taken_away(context: JobContext) -> None:
    """Force the rename of the job's directory to disk, before anything in it is deleted."""
    if context.syncs:
        for path in (context.job.temporary, context.job.job_directory):
            _sync_unless(FileNotFoundError, context.store, path)


def _written_to(context: JobContext) -> Iterator[Paths]:
    yield (context.job.destination,)
    width = context.executor.width
    for number in range(width):
        yield tuple(context.executor.directories.share(number, width))


def _run(context: JobContext, work: Work[None], groups: Iterable[Paths]) -> None:
    for _ in context.run(work, groups):
        pass


def _sync_files(worker: Worker, paths: Paths) -> None:
    worker.for_each(worker.store.sync, paths)


def _sync_directories(worker: Worker, paths: Paths) -> None:
    """Work: force the names in some directories, and in their ancestors, to disk; each only once."""
    above = {above_path for path in paths for above_path in ancestors(path, "/")}.difference(paths)
    worker.for_each(worker.store.sync, paths)
    # This job has made no directory where it cannot read.
    worker.for_each(partial(_sync_unless, PermissionError, worker.store), above)


def _sync_what_is_there(worker: Worker, paths: Paths) -> None:
    worker.for_each(partial(_sync_unless, FileNotFoundError, worker.store), paths)


def _sync_unless(error: type[OSError], store: StoreOperations, path: str) -> None:
    with suppress(error):
        store.sync(path)
