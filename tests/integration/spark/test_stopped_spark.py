"""Spark is stopped while a commit runs: the write ends, and nothing starts Spark again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ray_committer
from tests.integration.spark.conftest import data_files

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts"), pytest.mark.timeout(180)]


def test_a_write_whose_spark_is_stopped_ends_and_starts_no_other_spark(tmp_path: Path):
    script, dest = Path(__file__).with_name("stopped.py"), tmp_path / "table"
    command = [sys.executable, str(script), str(dest)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines()[-2:] == ["ended", "stopped"]
    if ray_committer.list_jobs(str(dest)):
        ray_committer.commit_job(str(dest))
    assert len(data_files(dest)) == 2
