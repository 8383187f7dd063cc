"""What the driver's JVM asks of the store: with us nothing of a data file, and nearly nothing at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

SCRIPT = Path(__file__).with_name("metered_job.py")


def run(directory: Path, **job: object) -> dict[str, Any]:
    directory.mkdir()
    command = [sys.executable, str(SCRIPT), str(directory), json.dumps(job)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.timeout(400)
@pytest.mark.parametrize("job", ["append", "overwrite", "dynamic"])
def test_the_driver_moves_lists_and_deletes_no_data_file(tmp_path: Path, job: str):
    theirs = run(tmp_path / "theirs", committer="v1", job=job)
    assert theirs["driver"]["rename data"] > 0  # so the meter sees what it looks for
    ours = run(tmp_path / "ours", committer="ours", job=job)
    assert ours["rows"] == theirs["rows"] == 80
    assert ours["driver"] == {"status job": 1}  # that the job is set up on the same store
    assert ours["written"] == theirs["written"]  # bytes and records, as Spark's UI shows them
    assert ours["written"][1] == 80
    assert ours["tasks"]["create data"] == theirs["tasks"]["create data"] == 8
