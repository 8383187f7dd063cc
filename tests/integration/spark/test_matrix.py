"""Every kind of write leaves what it leaves with Spark's own committer, but for named differences."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.spark.matrix.differences import MARKED, judge
from tests.integration.spark.matrix.selection import SPARK

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

ROOT = Path(__file__).parents[3]
LOCAL = "local[2,3]"
CLUSTER = "raydp" if SPARK == 3 else "local-cluster[2,1,600]"
"""Executors in other processes: RayDP where it exists, else a cluster that Spark starts itself."""

EVERYDAY = [
    "an empty task among others",
    "tasks that are all empty",
    "no marker",
    "few rows per file",
    "spaces and percents",
    "partitions of percents",
    "partitions of the name of null",
    "append over rows by the same column",
    "append over somebody's _temporary",
    "append over a file in place of a partition",
    "dynamic overwrite over an underscored file",
    "overwrite over a file in place of the destination",
    "dynamic overwrite over rows by the same column",
    "an overwrite of what is read",
    "a table in every mode",
    "INSERT INTO two tables at once",
    "INSERT OVERWRITE of a partition elsewhere",
    "INSERT OVERWRITE, dynamic, of a managed table",
    "CREATE TABLE AS, with partitions",
    "a task that fails once, a dynamic overwrite",
    "a task that fails for good, an overwrite",
    "a task that fails for good, INSERT OVERWRITE of a partition",
    "writers that append",
]
"""Of each way to write one, and what users meet most."""

ON_A_CLUSTER = [
    "partitions of percents",
    "an empty task among others",
    "dynamic overwrite over rows by the same column",
    "INSERT OVERWRITE, dynamic, of partitions elsewhere",
    "CLUSTERED BY, with partitions",
    "a table of Hive, text",
    "a table of Hive, parquet",
    "a task that fails once, an overwrite",
]
"""What executors elsewhere could do otherwise."""

MINUTES = 30


def run(master: str, directory: Path, names: list[str]) -> str:
    """How many writes were compared; an error shows those that are different."""
    command = [sys.executable, "-m", "tests.integration.spark.matrix", master, str(directory), *names]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * MINUTES - 60,
        cwd=directory,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert result.returncode == 0, f"{result.stdout[-20_000:]}\n{result.stderr[-3000:]}"
    return result.stdout.splitlines()[-1]


@pytest.mark.one_spark
@pytest.mark.timeout(60 * MINUTES)
@pytest.mark.parametrize(
    ("master", "names"),
    [
        pytest.param(LOCAL, EVERYDAY, id="one process"),
        pytest.param(LOCAL, [], id="one process, all", marks=pytest.mark.wide),
        pytest.param(
            CLUSTER,
            ON_A_CLUSTER,
            id="executors elsewhere",
            marks=[pytest.mark.xdist_group("spark-cluster"), pytest.mark.wide],
        ),
    ],
)
def test_every_writer_leaves_what_sparks_own_committer_leaves(
    tmp_path: Path, record_property: Callable[[str, str], None], master: str, names: list[str]
):
    told = run(master, tmp_path, names)
    assert "; 0 directories went whole" not in told
    record_property("compared", told)
    print(told)


def test_a_difference_that_the_case_does_not_name_is_wrong():
    theirs, ours = {"files": ["dest/a 0644"]}, {"files": ["dest/a 0600", "dest/_SUCCESS 0644"]}
    assert list(judge((MARKED,), theirs, ours)) == [
        "files, only theirs: dest/a 0644",
        "files, only ours: dest/a 0600",
    ]


def test_a_difference_that_the_case_names_and_does_not_show_is_wrong():
    same = {"files": ["dest/a 0644"]}
    assert list(judge((), same, same)) == []
    assert list(judge((MARKED,), same, same)) == [f"is not different: {MARKED.reason}"]
