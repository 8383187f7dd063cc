"""The main job on RayDP, a month of it: real Spark executors on Ray, the commit on Ray workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.ray, pytest.mark.xdist_group("raydp")]

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(400)
def test_a_raydp_job_is_committed_on_ray_workers_beside_its_executors(tmp_path: Path):
    command = [sys.executable, str(ROOT / "docs/examples/flights.py"), str(tmp_path), "--months", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert "PROBLEM" not in result.stdout
    assert "on ray (2 workers; asked for)" in result.stdout
    assert "in 93 directories, as planned and as listed" in result.stdout
    assert "rows by origin: {'EWR': 9893, 'JFK': 9161, 'LGA': 7950}" in result.stdout
