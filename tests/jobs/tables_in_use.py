"""What the tests of repairs share: a table in memory, jobs that stop, what log and directory say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ray_committer.jobs.resolve_claim import ResolvedClaim, resolve_on
from ray_committer.jobs.scan_table import TableScan, scan_on
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_paths import DIRECTORY
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_files
from ray_committer.tables.claim import Waiting
from ray_committer.tables.log import read_entries
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from tests.stages.support import JOB, OTHER_JOB, do_at
from tests.tables.support import TABLE, table_on

AT_ONCE = CommitOptions(conflict_wait_seconds=0.0)
THIRD = new_job_attempt("/table", "job_3", 0)
OLD = {"day=1/old": b"1", "day=2/old": b"22"}
NEW = {"day=1/new": b"333", "day=3/new": b"4444"}

Files = Mapping[str, bytes]


class Died(BaseException):
    """The end of a process in a test; no ``except Exception`` survives it."""


def of_mode(mode: ConflictMode, **fields: Any) -> CommitOptions:
    return CommitOptions(mode=mode, conflict_wait_seconds=0.0, **fields)


OVERWRITE = of_mode(ConflictMode.OVERWRITE)
OVERWRITE_PARTITIONS = of_mode(ConflictMode.OVERWRITE_PARTITIONS)
OVERWRITE_ONE = of_mode(ConflictMode.OVERWRITE, replaced_roots=("/table/day=1",))


def write(store: StoreOperations, files: Files, job: JobAttempt, options: CommitOptions) -> None:
    tasks = {number: {name: data} for number, (name, data) in enumerate(files.items())}
    write_job(store, job, tasks, mode=options.mode)


def committed(
    store: StoreOperations, files: Files, job: JobAttempt = THIRD, options: CommitOptions = AT_ONCE
) -> int | None:
    write(store, files, job, options)
    return run_commit(store, job, options).table_version


def table_with_old_files(store: MemoryStore) -> MemoryStore:
    """A table with two files and a job of its own that wrote them: versions 1 and 2."""
    committed(table_on(store), OLD, OTHER_JOB)
    return store


def die() -> None:
    raise Died


def stopped(
    store: MemoryStore,
    options: CommitOptions = AT_ONCE,
    files: Files = NEW,
    job: JobAttempt = JOB,
    **hook: Callable[[StoreCall], None],
) -> MemoryStore:
    """A table whose job has died, by default when all its new files were in place, and is gone."""
    table_with_old_files(store)
    write(store, files, job, options)
    hooks = hook or {"before": do_at("advance", die, end="sealed")}
    with pytest.raises(Died):
        run_commit(WrappedStore(store, **hooks), job, options)
    store.delete_directory("/table/_temporary")
    return store


def stopped_after_commit(
    store: MemoryStore, options: CommitOptions = OVERWRITE, files: Files = NEW
) -> MemoryStore:
    """A table whose job has died just after its entry `commit`, and is gone."""
    return stopped(store, options, files, after=do_at("rename", die, end="004.entry"))


def resolve(store: StoreOperations, *, job_id: str = JOB.job_id, **how: Any) -> ResolvedClaim:
    return resolve_on(store, "/table", job_id, waiting=Waiting(0.0), **how)


def scanned(store: StoreOperations, **how: bool) -> TableScan:
    return scan_on(store, "/table", waiting=Waiting(0.0), **how)


def data_in(store: StoreOperations) -> dict[str, int]:
    """The data files in the directory of the table, with their sizes."""
    found = visible_files(store, "/table")
    return {name: len(data) for name, data in found.items() if not name.startswith(f"{DIRECTORY}/")}


def data_of_log(store: StoreOperations) -> dict[str, int]:
    """The files that the log of the table says are in it, with their sizes."""
    _, files = read_files(store, TABLE, "id")
    return {file.p: file.z for partition in files.values() for file in partition.values()}


def kinds_of(store: StoreOperations, since: int = 2) -> list[str]:
    """The kinds of the entries after a version."""
    entries = read_entries(store, TABLE, since)
    return [type(entry).__name__.removeprefix("Table").lower() for _, entry in entries]


def in_flight(store: StoreOperations) -> list[str]:
    return [one.claim.job_id for one in read_files(store, TABLE, "id")[0].in_flight]


def sizes(*files: Files) -> dict[str, int]:
    return {name: len(data) for found in files for name, data in found.items()}
