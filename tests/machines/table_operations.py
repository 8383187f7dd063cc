"""A table with a log, and its compaction beside other operations, for `tests.machines.schedules`.

The contents of files are their rows, one per line, so that a file can be rewritten with others.
"""

from __future__ import annotations

from contextlib import suppress

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.find_job import list_job_directories
from ray_committer.job_files.job_state import read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.protocol.state import WITH_RECORD, Phase, new_nonce
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.compact_table import Bin, Compaction, Rewritten
from ray_committer.stages.make_table import make_table
from ray_committer.stages.read_files import find_read_files
from ray_committer.stages.table_job import write_task
from ray_committer.stages.task_files import TaskFiles
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.testing.harness import (
    put_task_file,
    run_abort,
    run_commit,
    run_compaction,
    run_undo,
)
from ray_committer.work.worker import Worker
from tests.machines.operations import (
    APPEND,
    DYNAMIC,
    HALF,
    HALF_OVERWRITE,
    OTHER_APPEND,
    OVERWRITE,
    PARTITION,
    WAIT_SECONDS,
    Operation,
    commit,
    each_with,
    pairs,
    undo,
)

TABLE_ID = "table"
DIRECTORY = "p=1"
"""Where the files are rewritten, and all jobs meet."""
_ID = "compact-"


def begin_log(store: StoreOperations, table: str) -> None:
    """Make a destination a table with a log, which names the files that are there."""
    make_table(store, TablePlaces(table), TableDefinition(table_id=TABLE_ID, created_milliseconds=1), 1)


def rows(data: bytes) -> list[bytes]:
    """The rows of a file, sorted."""
    return sorted(data.splitlines())


def _compact(store: StoreOperations, table: str) -> str:
    """Rewrite the files of a directory as one file."""
    at = FilesAt(store, TablePlaces(table), TABLE_ID)
    if len(files := at.below(DIRECTORY)) < 2:
        return "nothing to do"
    chosen = Bin(0, DIRECTORY, tuple(find_read_files(store, table, files)))
    result = run_compaction(
        store,
        new_job_attempt(table, f"{_ID}{new_nonce()}", 0),
        Compaction(TABLE_ID, at.state.version, (chosen,)),
        _merge,
        CommitOptions(conflict_wait_seconds=WAIT_SECONDS),
    )
    return "nothing to do" if result is None else "compacted"


def _merge(worker: Worker, one: Bin) -> Rewritten:
    data = b"\n".join(worker.store.read(file.path) for file in one.files)

    def write(files: TaskFiles, stem: str) -> None:
        put_task_file(files, join(one.directory, stem), data)

    return Rewritten((write_task(worker, one.number, write),), one.files)


COMPACT = Operation("compact", None, _compact)


def end_compactions(store: StoreOperations, table: str) -> None:
    """Finish each compaction that is recorded, and give up the others, as a user would do."""
    found = [one for job in list_job_directories(store, table) for one in job.attempts]
    for job in (one for one in found if one.job_id.startswith(_ID)):
        seen = read_state(store, job)
        with suppress(RayCommitterError):
            if seen is None or seen.phase not in WITH_RECORD:
                run_abort(store, job)
            elif seen.phase is Phase.UNDOING:
                run_undo(store, job)
            else:
                run_commit(store, job)


def table_pairs() -> list[tuple[Operation, Operation]]:
    """`pairs`, without jobs that are set up below a table, which are refused; and a compaction."""
    beside = [commit(job) for job in (APPEND, OTHER_APPEND, OVERWRITE, PARTITION, DYNAMIC, HALF)]
    beside += [undo(HALF), undo(HALF_OVERWRITE)]
    found = [pair for pair in pairs() if not any(one.job and one.job.below for one in pair)]
    return [*found, *each_with([COMPACT], beside), (COMPACT, COMPACT)]
