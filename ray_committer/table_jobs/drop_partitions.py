"""Remove partitions of a table: a job without new files that overwrites them.

Like any other overwrite it replaces what a listing shows, also files that the log does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ray_committer.errors import CommitConflictError, PathError, mark, some_of
from ray_committer.options import CommittedTask
from ray_committer.protocol.claims import fold_partitions
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_entry import WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_work import TableWork
from ray_committer.stages.context import JobContext
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.table_job import run_table_job, write_task
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.work.worker import Worker


def plan_drop(
    store: StoreOperations, table: TablePlaces, table_id: str, partitions: Sequence[str]
) -> TableWork:
    """The work of a job that removes partitions; changes nothing.

    `PathError` if a partition has no files. `CommitConflictError` if a file that the log names is not
    there: no overwrite would remove its name from the log.
    """
    at = FilesAt(store, table, table_id)
    missing: set[str] = set()
    for partition in partitions:
        named = {file.path for file in at.below(partition)}
        there = _files_below(store, table, partition)
        if not named and not there:
            raise PathError(
                f"{mark(join(table.destination, partition))}: is not a partition with files of the "
                "table",
                "nothing was changed: name a partition as `table files` shows it",
            )
        missing |= named - there
    if missing:
        raise CommitConflictError(
            f"{mark(table.destination)}: {some_of(sorted(missing))} is named by the log of the table "
            "but is not there",
            "nothing was changed: if a job replaces data there now, wait until it has ended and run the "
            "same command again; otherwise find out which program has deleted the file",
        )
    folded = tuple(fold_partitions(partitions))
    return TableWork(WriteMode.OVERWRITE, table_id, at.state.version, folded)


def drop_partitions(
    context: JobContext, work: TableWork, *, on_result: Callable[[CommitResult], None] = lambda _: None
) -> CommitResult:
    """Run a job that removes the partitions of its work."""
    return run_table_job(
        context, work, lambda context: context.executor.run(_write_nothing, [0]), on_result=on_result
    )


def _write_nothing(worker: Worker, number: int) -> CommittedTask:
    return write_task(worker, number, lambda *_: None)


def _files_below(store: StoreOperations, table: TablePlaces, partition: str) -> set[str]:
    directory = join(table.destination, partition)
    status = store.get_status(directory)
    if status is not None and not status.is_directory:
        return set()
    try:
        return {relative(table.destination, status.path) for status in store.list_files(directory)}
    except (FileNotFoundError, NotADirectoryError):
        return set()
