"""RayDP jobs whose Spark is stopped while the commit runs, or whose executors come and go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ray_committer
from tests.integration.spark.conftest import data_files

pytestmark = [
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("raydp"),
    pytest.mark.timeout(300),
]

DYNAMIC_ALLOCATION = (
    "spark.dynamicAllocation.enabled=true",
    "spark.dynamicAllocation.shuffleTracking.enabled=true",
    "spark.dynamicAllocation.minExecutors=1",
    "spark.dynamicAllocation.initialExecutors=1",
    "spark.dynamicAllocation.maxExecutors=3",
    "spark.dynamicAllocation.executorIdleTimeout=2s",
)


def test_stopping_spark_while_its_commit_runs_loses_nothing(dest: Path):
    run("stopped_job.py", str(dest))
    if ray_committer.list_jobs(str(dest)):
        ray_committer.commit_job(str(dest))
    assert len(data_files(dest)) == 16
    assert (dest / "_SUCCESS").is_file()
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), id="fixed"),
        pytest.param(DYNAMIC_ALLOCATION, id="dynamic-allocation", marks=pytest.mark.wide),
    ],
)
def test_a_job_that_loses_an_executor_is_committed_once(dest: Path, settings: tuple[str, ...]):
    said = run("lost_executor.py", str(dest), *settings)
    assert said.splitlines()[-1] == "lost 80"
    assert len(data_files(dest)) == 16
    assert not (dest / "_temporary").exists()


def run(script: str, *arguments: str) -> str:
    """Run a script of this directory to its end: what it printed."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    return result.stdout
