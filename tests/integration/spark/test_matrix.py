"""Every way in which Spark writes files gives with us what it gives with Spark's own committer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.matrix import CASES

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

SCRIPT = Path(__file__).with_name("matrix.py")
IS_SPARK_3 = pyspark.__version__.startswith("3.")
CLUSTER = "raydp" if IS_SPARK_3 else "local-cluster[2,1,600]"
"""Executors in other processes: RayDP where it exists, else a cluster that Spark starts itself."""

TABLES = ("dynamic_overwrite", "partitions_elsewhere", "a_table_of_hive", "buckets")
ON_A_CLUSTER = ["parquet_partitioned", "csv_partitioned", *TABLES]
"""What executors elsewhere could do otherwise."""


# Each case runs with one version of Spark in `make test`, those for a cluster on Spark 4's.
if IS_SPARK_3:
    HERE = list(CASES)[::2]
else:
    HERE = [name for name in list(CASES)[1::2] if name not in ON_A_CLUSTER]
LEFT = [name for name in CASES if name not in HERE]


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
@pytest.mark.parametrize(
    ("master", "cases"),
    [
        pytest.param("local[2]", HERE, id="one process"),
        pytest.param("local[2]", LEFT, id="one process, the others", marks=pytest.mark.wide),
        pytest.param(
            CLUSTER,
            ON_A_CLUSTER,
            id="executors elsewhere",
            marks=[
                pytest.mark.xdist_group("spark-cluster"),
                *([pytest.mark.wide] if IS_SPARK_3 else []),
            ],
        ),
        pytest.param(
            CLUSTER,
            [name for name in CASES if name not in ON_A_CLUSTER],
            id="executors elsewhere, the others",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_every_writer_leaves_what_sparks_own_committer_leaves(
    tmp_path: Path, master: str, cases: list[str]
):
    compare(run(master, tmp_path, cases))
