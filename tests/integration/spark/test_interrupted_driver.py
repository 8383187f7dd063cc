"""Ctrl-C and death of a Spark driver in the middle of a commit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ray_committer
from tests.integration.spark.conftest import data_files

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.wide)])
def test_an_interrupted_driver_stops_the_commit_and_the_same_command_finishes_it(
    dest: Path, number: signal.Signals
):
    script = Path(__file__).with_name("slow_commit.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(dest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("renaming"):
            process.send_signal(number)
            break
    output, _ = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 7), output
    if number == signal.SIGINT:  # not only the write has ended: a prompt may follow
        assert "commit raised CommitCancelledError" in output
    moved = data_files(dest)
    assert 0 < len(moved) < 100
    time.sleep(1)
    assert data_files(dest) == moved
    (job,) = ray_committer.list_jobs(str(dest))
    assert job.state == "recorded"  # Spark's abortJob has deleted nothing
    report = ray_committer.commit_job(str(dest))
    assert report.resumed
    assert report.files == 100
    assert len(data_files(dest)) == 100
