"""The old files of a job that is made from the log of its table: those that it has read, and no others.

A listing would also show what other jobs have added since the job has read the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ray_committer.errors import CommitConflictError, mark, some_of
from ray_committer.places.old_files import replaced_file
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import ancestors, join, parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.protocol.recovery import Expectation, Observation, prove
from ray_committer.protocol.table_work import TableWork
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.list_replaced_files import OldData
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.sources import list_directory


def find_read_files(
    store: StoreOperations, destination: str, files: Sequence[ListedFile]
) -> list[ReplacedFile]:
    """The facts of some files of a table, in their order; one listing per directory.
    `CommitConflictError` if a file is gone, or is not the one that the log names."""
    paths = [join(destination, file.path) for file in files]
    there = _statuses(store, paths)
    wrong = [
        mark(path)
        for path, file in zip(paths, files, strict=True)
        if path not in there or not _is_as_listed(file, there[path])
    ]
    if wrong:
        raise CommitConflictError(
            f"{some_of(wrong)}: is not there as the log of the table names it",
            "nothing was changed: find out which program has changed it; if it was a job of this table "
            "at the same time, run the same command again",
        )
    return [replaced_file(there[path]) for path in paths]


def list_read_files(context: JobContext, work: TableWork) -> OldData:
    """The files that the job's `work` names, as old data, after the job's claim. `CommitConflictError`
    if a file is gone or has changed since the job has read it."""
    destination = context.job.destination
    there = _statuses(context.store, [file.path for file in work.replaced])
    wrong = [
        mark(file.path)
        for file in work.replaced
        if file.path not in there or replaced_file(there[file.path]) != file
    ]
    if wrong:
        raise CommitConflictError(
            f"{some_of(wrong)}: has changed since job {context.job.job_id} has read it at version "
            f"{work.base}",
            "nothing was changed: run the same command again",
        )
    directories = {parent(file.path) for file in work.replaced}
    above = {path for directory in directories for path in ancestors(directory, destination)}
    files = sorted(work.replaced, key=lambda file: file.path)
    return OldData(tuple(files), directories=tuple(sorted((directories | above) - {destination})))


def _statuses(store: StoreOperations, paths: Iterable[str]) -> Mapping[str, FileStatus]:
    directories = sorted({parent(path) for path in paths})
    listed = at_once(store, partial(list_directory, store, anew=True), directories)
    return {status.path: status for statuses in listed for status in statuses if not status.is_directory}


def _is_as_listed(file: ListedFile, status: FileStatus) -> bool:
    expected = Expectation(file.size, file.etag, file.modified_milliseconds)
    observed = Observation(status.size, status.etag, status.modified_milliseconds)
    return prove(expected, observed) is not None
