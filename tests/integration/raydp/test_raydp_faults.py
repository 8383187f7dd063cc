"""What happens to a RayDP job when Spark is stopped while its commit runs."""

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


def test_stopping_spark_while_its_commit_runs_loses_nothing(dest: Path):
    command = [sys.executable, str(Path(__file__).with_name("stopped_job.py")), str(dest)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    if ray_committer.list_jobs(str(dest)):
        ray_committer.commit_job(str(dest))
    assert len(data_files(dest)) == 16
    assert (dest / "_SUCCESS").is_file()
    assert not (dest / "_temporary").exists()
