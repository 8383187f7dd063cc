"""The examples on RayDP, a few days of them: Spark executors on Ray, the commit on Ray workers."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.ray, pytest.mark.xdist_group("raydp")]

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(400)
def test_a_raydp_job_is_committed_on_ray_workers_beside_its_executors(tmp_path: Path):
    script = str(ROOT / "docs/examples/flights.py")
    command = [sys.executable, script, str(tmp_path), "--days", "7", "--executors", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert "PROBLEM" not in result.stdout
    assert "moved now, on ray: " in result.stdout
    assert "2 (on ray)" in result.stdout
    assert "in 21 directories, as planned and as listed" in result.stdout
    assert "rows by origin: {'EWR': 2211, 'JFK': 2170, 'LGA': 1718}" in result.stdout


@pytest.mark.timeout(400)
@pytest.mark.wide
def test_what_a_raydp_job_committed_is_read_by_ray_data(tmp_path: Path):
    command = [sys.executable, str(ROOT / "docs/examples/delays.py"), str(tmp_path), "--days", "31"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    for carrier, (minutes, day) in worst_days(tmp_path / "flights.csv").items():
        assert f"{carrier}: {minutes:5.1f} minutes on 2013-01-{day:02}" in result.stdout.splitlines()


def worst_days(source: Path) -> dict[str, tuple[float, int]]:
    """Each carrier's longest mean delay in January and its day, from the source itself."""
    delays = defaultdict(list)
    with source.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["dep_delay"] != "NA":
                delays[row["carrier"], int(row["day"])].append(float(row["dep_delay"]))
    worst: dict[str, tuple[float, int]] = {}
    for (carrier, day), minutes in delays.items():
        found = (sum(minutes) / len(minutes), day)
        worst[carrier] = max(found, worst.get(carrier, found))
    return worst
