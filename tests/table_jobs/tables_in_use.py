"""What the tests of repairs share: a table in memory, jobs that stop, what log and directory say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.resolve_claim import ResolvedClaim, resolve_on
from ray_committer.table_jobs.scan_table import TableScan, scan_on
from ray_committer.tables.log import read_entries
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)
from tests.commits.tables import AT_ONCE, OLD, OVERWRITE, THIRD, Write, of_mode
from tests.stages.support import JOB, OTHER_JOB, do_at
from tests.tables.support import TABLE, table_on

NEW = {"day=1/new": b"333", "day=3/new": b"4444"}


class Died(BaseException):
    """The end of a process in a test; no ``except Exception`` survives it."""


OVERWRITE_PARTITIONS = of_mode(ConflictMode.OVERWRITE_PARTITIONS)
OVERWRITE_ONE = of_mode(ConflictMode.OVERWRITE, replaced_roots=("/table/day=1",))


def write(store: StoreOperations, files: Write, job: JobAttempt, options: CommitOptions) -> None:
    tasks = {number: {name: data} for number, (name, data) in enumerate(files.items())}
    write_job(store, job, tasks, mode=options.mode)


def committed(
    store: StoreOperations, files: Write, job: JobAttempt = THIRD, options: CommitOptions = AT_ONCE
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
    files: Write = NEW,
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
    store: MemoryStore, options: CommitOptions = OVERWRITE, files: Write = NEW
) -> MemoryStore:
    """A table whose job has died just after its entry `commit`, and is gone."""
    return stopped(store, options, files, after=do_at("rename", die, end="004.entry"))


def resolve(store: StoreOperations, *, job_id: str = JOB.job_id, **how: Any) -> ResolvedClaim:
    return resolve_on(store, "/table", job_id, waiting=Waiting(0.0), **how)


def scanned(store: StoreOperations, **how: bool) -> TableScan:
    return scan_on(store, "/table", waiting=Waiting(0.0), **how)


def kinds_of(store: StoreOperations, since: int = 2) -> list[str]:
    """The kinds of the entries after a version."""
    entries = read_entries(store, TABLE, since)
    return [type(entry).__name__.removeprefix("Table").lower() for _, entry in entries]
