"""What the tests of commits to tables with a log share: jobs, and what they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from ray_committer.job_files import owners
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_files
from ray_committer.tables.log import read_entries
from ray_committer.testing import MemoryStore, WrappedStore, run_commit, visible_files, write_job
from tests.stages.support import JOB, OTHER_JOB, do_at
from tests.tables.support import TABLE, table_on

AT_ONCE = CommitOptions(conflict_wait_seconds=0.0)
OLD = {"day=1/old": b"1", "day=2/old": b"22"}
NEW = {"day=1/new": b"3", "day=2/old": b"new"}
THIRD = new_job_attempt("/table", "job_3", 0)
Write = Mapping[str, bytes]


def of_mode(mode: ConflictMode, **fields: object) -> CommitOptions:
    return CommitOptions(mode=mode, conflict_wait_seconds=0.0, **fields)  # type: ignore[arg-type]


OVERWRITE = of_mode(ConflictMode.OVERWRITE)


def write(
    store: StoreOperations,
    files: Write,
    job: JobAttempt = JOB,
    mode: ConflictMode = ConflictMode.APPEND,
    run_id: str | None = None,
) -> None:
    write_job(
        store,
        job,
        {number: {name: data} for number, (name, data) in enumerate(files.items())},
        mode=mode,
        run_id=run_id,
    )


def committed(
    store: StoreOperations,
    files: Write,
    job: JobAttempt = JOB,
    options: CommitOptions = AT_ONCE,
) -> int | None:
    write(store, files, job, options.mode, options.run_id)
    return run_commit(store, job, options).table_version


def with_old_data(store: MemoryStore) -> MemoryStore:
    committed(table_on(store), OLD, OTHER_JOB)
    return store


def data_in(store: StoreOperations, table: TablePlaces = TABLE) -> dict[str, int]:
    """The data files in the directory of a table, with their sizes."""
    found = visible_files(store, table.destination)
    own = f"{DIRECTORY}/"
    return {name: len(data) for name, data in found.items() if not name.startswith(own)}


def data_of_log(store: StoreOperations, table: TablePlaces = TABLE) -> dict[str, int]:
    """The files that the log of a table says are in it, with their sizes."""
    _, files = read_files(store, table, "id")
    return {file.path: file.size for partition in files.values() for file in partition.values()}


def sizes(*files: Write) -> dict[str, int]:
    return {name: len(data) for found in files for name, data in found.items()}


def kinds_of(store: StoreOperations, table: TablePlaces = TABLE) -> list[str]:
    return [
        type(entry).__name__.removeprefix("Table").lower() for _, entry in read_entries(store, table)
    ]


def in_flight(store: StoreOperations) -> list[str]:
    return [one.claim.job_id for one in read_files(store, TABLE, "id")[0].in_flight]


def begun(kind: Callable[[], MemoryStore], files: Write, mode: ConflictMode) -> MemoryStore:
    store = with_old_data(kind())
    write(store, files, mode=mode)
    return store


def stopped_at(store: StoreOperations, phase: str, job: JobAttempt, options: CommitOptions) -> None:
    """Run a commit until just before the job gets into a phase."""
    stop = do_at("advance", partial(pytest.fail, "stop"), end=phase)
    with pytest.raises(pytest.fail.Exception):
        run_commit(WrappedStore(store, before=stop), job, options)


@contextmanager
def claimants_at_work(store: StoreOperations, table: TablePlaces = TABLE) -> Iterator[None]:
    """Each run that has made a claim is at work on it in the block, as far as others can see."""
    with ExitStack() as runs:
        for _, entry in read_entries(store, table):
            if isinstance(entry, TableClaim):
                runs.enter_context(owners.at_work(entry.owner.run))
        yield


def job_of(tasks: int, files: int) -> dict[int, dict[str, bytes]]:
    return {
        task: {f"day={number % 3 + 3}/{task}-{number}": b"x" for number in range(files)}
        for task in range(tasks)
    }
