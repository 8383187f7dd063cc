"""The last program of ``make demo``: the same job with each committer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.wide,
    pytest.mark.hadoop,
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(400),
]

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "committers.py"


def test_each_committer_commits_the_job_and_its_seconds_are_printed():
    command = [sys.executable, str(SCRIPT), "--partitions", "2", "--files", "2", "--millis", "1"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    first, *lines = result.stdout.splitlines()
    assert first == "df.write of 4 files in 2 partitions, 1 ms a request:"
    names = [re.split("  +", line.strip())[0] for line in lines]
    assert names == [
        "Spark's own committer",
        "Hadoop's manifest committer",
        "ray_committer in the driver's threads",
        "ray_committer on Ray, 2 workers",
    ]
    for line in lines:
        assert len(re.findall(r"\d+\.\d s", line)) == 2
