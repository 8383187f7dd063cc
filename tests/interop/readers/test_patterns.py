"""What DuckDB's patterns find in a table while a job writes to it: docs/who_sees_what.md."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode


def write(dest: Path, job_id: str, row: int, *, task: int = 0) -> None:
    with (
        ray_committer.task_attempt(str(dest), job_id, task) as attempt,
        attempt.open("day=1/a.parquet") as file,
    ):
        pq.write_table(pa.table({"row": [row]}), file)


@pytest.fixture
def table(dest: Path) -> Path:
    """Row 2, which has replaced row 1, and row 3 of a task whose job is not committed."""
    dest.mkdir()
    ray_committer.init_table(str(dest), keep_replaced=True)
    for number, mode in ((1, ConflictMode.APPEND), (2, ConflictMode.OVERWRITE)):
        options = CommitOptions(mode=mode)
        job = ray_committer.setup_job(str(dest), options=options)
        write(dest, job, number)
        ray_committer.commit_job(str(dest), job, executor="inline", options=options)
    write(dest, ray_committer.setup_job(str(dest)), 3)
    return dest


@pytest.mark.parametrize(("pattern", "rows"), [("**/*.parquet", [2, 3]), ("day=*/*.parquet", [2])])
def test_a_pattern_that_enters_all_directories_reads_files_of_tasks_and_no_others(
    table: Path, pattern: str, rows: list[int]
):
    assert list((table / "_ray_committer").rglob("*.kept"))
    found = duckdb.sql(f"SELECT row FROM read_parquet('{table}/{pattern}') ORDER BY row").fetchall()
    assert [row for (row,) in found] == rows
