"""Every way in which Spark writes files gives with us what it gives with Spark's own committer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.matrix import CASES, FORMATS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

SCRIPT = Path(__file__).with_name("matrix.py")
IS_SPARK_3 = pyspark.__version__.startswith("3.")
TABLES = ("dynamic_overwrite", "partitions_elsewhere", "a_table_of_hive", "buckets")
ON_A_CLUSTER = [*(f"{name}_partitioned" for name in FORMATS), *TABLES]
"""What is tried with executors in processes of their own; RAY_COMMITTER_TEST_MATRIX=all tries all."""


def run(master: str, directory: Path, cases: list[str]) -> dict[str, dict[str, Any]]:
    command = [sys.executable, str(SCRIPT), master, str(directory), *cases]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=850, cwd=directory
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def compare(found: dict[str, dict[str, Any]]) -> None:
    wrong = {
        (name, what): (case["theirs"][what], case["ours"][what])
        for name, case in found.items()
        for what in case["theirs"]
        if case["theirs"][what] != case["ours"][what]
    }
    assert wrong == {}
    assert [name for name, case in found.items() if not case["commits"]] == []
    assert [name for name, case in found.items() if case["ours"]["left over"]] == []


@pytest.mark.timeout(900)
def test_every_writer_in_one_process(tmp_path: Path):
    compare(run("local[2]", tmp_path, list(CASES)))


@pytest.mark.timeout(900)
def test_writers_with_executors_in_other_processes(tmp_path: Path):
    """On RayDP where it exists, else on a cluster that Spark starts itself."""
    everything = os.environ.get("RAY_COMMITTER_TEST_MATRIX") == "all"
    cases = list(CASES) if everything else ON_A_CLUSTER
    compare(run("raydp" if IS_SPARK_3 else "local-cluster[2,1,600]", tmp_path, cases))
