"""What the tests of all stores ask of snapshots: their readers read exactly one committed version."""

from __future__ import annotations

from typing import Any

import pytest

import ray_committer
from ray_committer.errors import TableVersionGoneError
from ray_committer.table_jobs.table import init_table

ROWS = b"number\n%d\n"
DAYS = [1, 2]


def check_snapshots(url: str, options: dict[str, Any]) -> ray_committer.Snapshot:
    """Commit three jobs of CSV files to a new table, and read each version; return the last snapshot."""
    init_table(url, storage_options=options)
    first = commit(url, options, 7)
    second = commit(url, options, 8)
    old, both = (ray_committer.snapshot(url, one, storage_options=options) for one in (first, second))
    assert rows_of(both) == [(day, number) for day in DAYS for number in (7, 8)]
    assert rows_of(both, "day=2") == [(2, 7), (2, 8)]
    assert rows_of(old) == [(day, 7) for day in DAYS]
    last = commit(url, options, 9, "overwrite")
    with pytest.raises(FileNotFoundError, match=r"day=1/part-7\.csv"):
        rows_of(both)
    with pytest.raises(TableVersionGoneError, match="has deleted"):
        ray_committer.snapshot(url, second, storage_options=options).dataset()
    now = ray_committer.snapshot(url, storage_options=options)
    assert now.version >= last
    assert rows_of(now) == [(day, 9) for day in DAYS]
    return now


def rows_of(found: ray_committer.Snapshot, *partitions: str) -> list[tuple[int, int]]:
    """The rows of a snapshot as pyarrow reads them."""
    rows = found.dataset(*partitions).to_table().to_pylist()
    return sorted((row["day"], row["number"]) for row in rows)


def commit(url: str, options: dict[str, Any], number: int, mode: str = "append") -> int:
    """Commit a job with a row in each of two partitions; its version."""
    chosen = ray_committer.CommitOptions(mode=ray_committer.ConflictMode(mode))
    named = {"options": chosen, "storage_options": options}
    job = ray_committer.setup_job(url, f"job_{number}", **named)
    with ray_committer.task_attempt(url, job, task=0, storage_options=options) as attempt:
        for day in DAYS:
            with attempt.open(f"day={day}/part-{number}.csv") as file:
                file.write(ROWS % number)
    version = ray_committer.commit_job(url, job, **named).table_version
    assert version is not None
    return version
