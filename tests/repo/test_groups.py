"""Tests that share a cluster, a session or a server run in one process, as `xdist_group` says.

pytest 9.2 and pytest-xdist 3.8 together forget the groups without a word: each process then starts its
own clusters.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_notes_its_process(number):
    with open("processes", "a") as file:
        file.write(f"{os.getpid()} ")
"""


@pytest.mark.wide
def test_the_tests_of_a_group_run_in_one_process(tmp_path: Path):
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "."]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    processes = (tmp_path / "processes").read_text().split()
    assert len(processes) == 8
    assert len(set(processes)) == 1
