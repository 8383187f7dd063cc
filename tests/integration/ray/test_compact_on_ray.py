"""A compaction whose files are rewritten by workers on Ray."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ray_committer
from ray_committer.errors import CommitAbortedError
from ray_committer.jobs.table import init_table, table_log

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("ray_cluster"),
]


@pytest.fixture
def table(dest: Path) -> Path:
    dest.mkdir()
    init_table(str(dest))
    for number in range(6):
        job = ray_committer.setup_job(str(dest))
        with ray_committer.task_attempt(str(dest), job, task=0) as attempt:
            path = attempt.path(f"day={number % 3}/{number}.parquet")
            pq.write_table(pa.table({"x": [number]}), path)
        ray_committer.commit_job(str(dest), job, executor="inline")
    return dest


@pytest.mark.wide
def test_workers_rewrite_the_files(table: Path):
    report = ray_committer.compact(str(table), executor="ray")
    assert report is not None
    assert (report.executor, report.files, report.replaced) == ("ray", 3, 6)
    rows = ray_committer.snapshot(str(table)).dataset().to_table()
    assert rows.column("x").to_pylist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.wide
def test_a_failure_of_a_worker_leaves_nothing(table: Path):
    job = ray_committer.setup_job(str(table))
    with ray_committer.task_attempt(str(table), job, task=0) as attempt:
        Path(attempt.path("day=1/damaged.parquet")).write_text("no Parquet")
    ray_committer.commit_job(str(table), job, executor="inline")
    version = ray_committer.snapshot(str(table)).version
    with pytest.raises(CommitAbortedError, match=r"damaged\.parquet: cannot be read as Parquet"):
        ray_committer.compact(str(table), executor="ray")
    assert [entry.kind for entry in table_log(str(table), since=version)] == ["abort"]
    assert not (table / "_temporary").exists()
