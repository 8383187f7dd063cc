"""RayDP jobs that lose an executor, or whose Spark is stopped while the commit runs."""

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


@pytest.mark.wide
@pytest.mark.parametrize(
    "settings",
    [pytest.param((), id="fixed"), pytest.param(DYNAMIC_ALLOCATION, id="dynamic-allocation")],
)
def test_a_lost_executor_and_a_stopped_spark_lose_no_file(tmp_path: Path, settings: tuple[str, ...]):
    lost, stopped = tmp_path / "lost", tmp_path / "stopped"
    said = run(str(lost), str(stopped), *settings)
    assert "lost 80" in said.splitlines()
    assert_committed(lost)
    assert "renamed " in said  # Spark was stopped when the commit had begun
    if ray_committer.list_jobs(str(stopped)):
        ray_committer.commit_job(str(stopped))
    assert_committed(stopped)


def assert_committed(dest: Path) -> None:
    assert len(data_files(dest)) == 16
    assert (dest / "_SUCCESS").is_file()
    assert not (dest / "_temporary").exists()


def run(*arguments: str) -> str:
    """Run `faults.py` to its end: what it printed."""
    command = [sys.executable, str(Path(__file__).with_name("faults.py")), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    return result.stdout
