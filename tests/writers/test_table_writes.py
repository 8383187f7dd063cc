"""Writes to a table with a log: the version of each, and what a write that has failed leaves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitRecordExistsError, IncompleteJobError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.table import init_table, table_log
from ray_committer.testing import SimulatedCrash, WrappedStore, run_commit
from ray_committer.writers import job as arrow_job
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import ArrowJob, WriteMode
from tests.stages.support import at


@pytest.fixture
def table(dest: Path) -> Path:
    init_table(str(dest))
    return dest


def started(dest: Path) -> ArrowJob:
    layout, options = FileLayout("parquet"), CommitOptions(conflict_wait_seconds=0.0)
    job = arrow_job.start(str(dest), layout, mode=WriteMode.APPEND, options=options)
    assert job is not None
    return job


def written(dest: Path, value: int) -> ray_committer.CommitReport:
    job = started(dest)
    result = arrow_job.write_attempt(job, 0, [pa.table({"x": [value]})])
    report = arrow_job.commit(job, [result], executor="inline")
    assert report is not None
    return report


def rows(dest: Path) -> list[int]:
    found = ray_committer.snapshot(str(dest))
    return found.dataset().to_table().column("x").to_pylist() if found.files() else []


def test_a_write_says_its_version(table: Path):
    first, second = written(table, 1), written(table, 2)
    assert [one.table_version for one in (first, second)] == [4, 6]
    path = next(str(table / one.path) for one in ray_committer.snapshot(str(table), 4).files())
    found = ray_committer.who_wrote(path)
    assert (found.claim, found.version, found.job_id) == (3, 4, first.job_id)


def test_without_a_log_a_write_has_no_version(dest: Path):
    assert written(dest, 1).table_version is None


def test_rows_of_a_failed_write_are_never_part_of_the_table(table: Path):
    written(table, 1)
    job = started(table)
    result = arrow_job.write_attempt(job, 0, [pa.table({"x": [2]})])
    with pytest.raises(IncompleteJobError), arrow_job.aborted_on_failure(job):
        arrow_job.commit(job, [result, None], executor="inline")
    assert rows(table) == [1]
    assert not (table / "_temporary").exists()
    assert written(table, 3).table_version == 7  # after the abort of the job that failed


@pytest.mark.parametrize(
    ("operation", "end", "is_committed"),
    [
        ("advance", "declared", False),
        ("advance", "recorded", False),
        ("rename", ".parquet", False),
        ("advance", "sealed", False),
        ("advance", "committed", True),
    ],
)
def test_rows_of_an_interrupted_write_count_from_its_entry_and_its_claim_finds_the_rest(
    table: Path, operation: str, end: str, is_committed: bool
):
    written(table, 1)
    job = started(table)
    arrow_job.write_attempt(job, 0, [pa.table({"x": [2]})])
    store = WrappedStore(LocalStore(StoreSpec("file")), before=at(operation, SimulatedCrash(), end))
    with pytest.raises(SimulatedCrash):
        run_commit(store, new_job_attempt(str(table), job.job_id, 0))
    assert sorted(rows(table)) == ([1, 2] if is_committed else [1])
    claims = [one for one in table_log(str(table), since=4) if one.kind == "claim"]
    assert len(claims) == (end != "declared")
    job_id = claims[0].job_id if claims else job.job_id
    assert _end(table, job_id) is is_committed
    assert sorted(rows(table)) == ([1, 2] if is_committed else [1])
    assert not (table / "_temporary").exists()


def _end(dest: Path, job_id: str) -> bool:
    """End a job as a person does that finds its claim in the log; whether it is committed then."""
    for undo in (False, True):
        with suppress(CommitRecordExistsError):
            assert ray_committer.abort_job(str(dest), job_id, undo=undo)
            return False
    ray_committer.commit_job(str(dest), job_id, executor="inline")
    return True
