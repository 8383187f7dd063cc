"""What Spark asks of the store: with us its driver nothing of a data file, and each task little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
]

SCRIPT = Path(__file__).with_name("metered_job.py")
JOBS = ("append", "overwrite", "dynamic")


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """Each of JOBS by Spark's own committer and by ours, in one driver."""
    runs = [(committer, job) for committer in ("v1", "ours") for job in JOBS]
    jobs = [{"committer": committer, "job": job} for committer, job in runs]
    return dict(zip(runs, run_jobs(tmp_path_factory.mktemp("metered"), *jobs), strict=True))


def run_jobs(directory: Path, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
    command = [sys.executable, str(SCRIPT), str(directory), *map(json.dumps, jobs)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr[-3000:]
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("job", JOBS)
def test_mapreduce_4815_the_driver_moves_lists_and_deletes_no_data_file(metered, job: str):
    """One thread of the driver moved the files of all tasks, which took minutes."""
    theirs, ours = metered["v1", job], metered["ours", job]
    assert theirs["driver"]["rename data"] > 0  # so the meter sees what it looks for
    assert ours["rows"] == theirs["rows"] == 80
    assert ours["driver"] == {"list state": 1}  # that the job is set up on the same store
    assert ours["written"] == theirs["written"]  # bytes and records, as Spark's UI shows them
    assert ours["written"][1] == 80
    assert ours["tasks"]["create data"] == theirs["tasks"]["create data"] == 8


@pytest.mark.parametrize("job", JOBS)
def test_a_task_lists_each_directory_that_it_wrote_to_and_its_own(metered, job: str):
    tasks = metered["ours", job]["tasks"]
    assert tasks["list job"] == 2 * (4 + 1)  # two tasks of four partitions each
    assert tasks["status data"] == tasks["create data"]  # by Spark, for its own statistics
    assert not {"list data", "mkdirs job", "mkdirs data"} & tasks.keys()


@pytest.mark.parametrize("job", JOBS)
def test_a_task_looks_at_its_job_when_it_begins_and_before_and_after_it_has_saved(metered, job: str):
    tasks = metered["ours", job]["tasks"]
    assert {what: number for what, number in tasks.items() if "state" in what} == {"list state": 2 * 3}
    assert tasks.get("open job", 0) == 0


def test_a_task_of_3000_partitions_lists_each_of_them_once(tmp_path: Path):
    (found,) = run_jobs(tmp_path, {"committer": "ours", "partitions": 3000, "files": 1})
    assert found["rows"] == 30_000
    assert found["tasks"]["list job"] == 3000 + 1
