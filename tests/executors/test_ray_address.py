"""A cluster that is not there is said to be so at once: Ray itself would try for minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(120)
def test_a_commit_on_a_ray_that_is_not_there_changes_nothing(dest: Path, write_job, tree):
    write_job({0: {"a": "x"}})
    command = [sys.executable, "-m", "ray_committer.cli", "commit", str(dest), "--assume-complete"]
    result = subprocess.run(
        [*command, "--executor", "ray"],
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1, result.stderr
    assert "RAY_ADDRESS=127.0.0.1:1: no Ray cluster answers there" in result.stderr
    assert tree() == {}
    assert (dest / "_temporary").exists()
