"""Two RayDP jobs in one cluster, committed by the workers of one pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.spark.conftest import data_files
from tests.raylets import start_cluster

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("raydp"),
    pytest.mark.timeout(300),
]

SCRIPT = Path(__file__).with_name("shared_pool.py")


def test_two_raydp_jobs_are_committed_by_the_workers_of_one_pool(tmp_path: Path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    cluster = start_cluster({"num_cpus": 6})
    try:
        drivers = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), cluster.address, "nightly", *dests],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for dests in ((first, second), (second, first))
        ]
        told = [driver.communicate(timeout=240) for driver in drivers]
    finally:
        cluster.shutdown()
    assert [driver.returncode for driver in drivers] == [0, 0], told
    by = [line for out, _ in told for line in out.splitlines() if line.startswith("committed")]
    assert len(by) == 2
    assert len(set(by)) == 1, by  # the same two processes
    files = len(data_files(Path(first)))
    assert by[0].startswith(f"committed {files} of {files} on ray by ")
    assert len(data_files(Path(second))) == files
