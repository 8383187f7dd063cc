"""Ctrl-C and death of a Spark driver in the middle of a commit, and its application run again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

import ray_committer
from ray_committer.errors import CommitConflictError
from ray_committer.spark import Installation
from tests.integration.spark.conftest import data_files

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark-scripts")]

UNFINISHED = "spark.ray_committer.unfinished"
DYNAMIC = "partitionOverwriteMode"


def interrupt(dest: Path, number: signal.Signals, mode: str = "error") -> str:
    """Send a signal to an application in the middle of its commit; what it prints after that."""
    script = Path(__file__).with_name("slow_commit.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(dest), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("renaming"):
            process.send_signal(number)
            break
    output, _ = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 7), output
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.wide)])
def test_an_interrupted_driver_stops_the_commit_and_the_same_command_finishes_it(
    dest: Path, number: signal.Signals
):
    output = interrupt(dest, number)
    if number == signal.SIGINT:  # not only the write has ended: a prompt may follow
        assert "commit raised CommitCancelledError" in output
    moved = data_files(dest)
    assert 0 < len(moved) < 100
    time.sleep(1)
    assert data_files(dest) == moved
    (job,) = ray_committer.list_jobs(str(dest))
    assert job.state == "recorded"  # Spark's abortJob has deleted nothing
    report = ray_committer.commit_job(str(dest))
    assert report.resumed
    assert report.files == 100
    assert len(data_files(dest)) == 100


@pytest.fixture
def again(spark: SparkSession) -> Callable[..., DataFrameWriter]:
    """The write of the application that was killed, with a mode and options."""
    frame: DataFrame = spark.range(400).selectExpr("id", "id % 100 AS p").repartition(1)

    def writer(mode: str, **options: str) -> DataFrameWriter:
        return frame.write.partitionBy("p").mode(mode).options(**options)

    return writer


def times(dest: Path, spark: SparkSession) -> dict[int, int]:
    """How many ids are there how often."""
    return dict(Counter(Counter(row.id for row in spark.read.parquet(str(dest)).collect()).values()))


@pytest.mark.wide
def test_an_append_that_is_run_again_after_its_driver_was_killed_doubles_no_row(
    dest: Path, spark: SparkSession, installation: Installation, again: Callable[..., DataFrameWriter]
):
    interrupt(dest, signal.SIGKILL, "append")
    assert 0 < len(data_files(dest)) < 100
    saved = dest.with_name("saved")
    shutil.copytree(dest, saved)
    with pytest.raises(Exception, match=r"its rows would be there twice") as caught:
        again("append").parquet(str(dest))
    assert "ray-committer commit" in str(caught.value)
    assert "--undo" in str(caught.value)
    assert isinstance(installation.last_error, CommitConflictError)
    assert data_files(dest) == data_files(saved)
    for unfinished, rows in (("supersede", {1: 400}), ("finish", {2: 400})):
        shutil.rmtree(dest)
        shutil.copytree(saved, dest)
        again("append", **{UNFINISHED: unfinished}).parquet(str(dest))
        assert times(dest, spark) == rows
        assert not (dest / "_temporary").exists()


@pytest.mark.wide
def test_an_overwrite_that_is_run_again_after_its_driver_was_killed_heals_by_itself(
    dest: Path, spark: SparkSession, installation: Installation, again: Callable[..., DataFrameWriter]
):
    spark.range(1000, 1010).selectExpr("id", "id % 100 AS p").write.partitionBy("p").parquet(str(dest))
    interrupt(dest, signal.SIGKILL, "overwrite")
    assert len(data_files(dest)) > 10
    saved = dest.with_name("saved")
    shutil.copytree(dest, saved)
    again("overwrite").parquet(str(dest))
    assert times(dest, spark) == {1: 400}
    assert not (dest / "_temporary").exists()
    shutil.rmtree(dest)
    shutil.copytree(saved, dest)
    with pytest.raises(Exception, match=r"must not replace data there before"):
        again("overwrite", **{DYNAMIC: "dynamic"}).parquet(str(dest))
    assert data_files(dest) == data_files(saved)
    again("overwrite", **{DYNAMIC: "dynamic", UNFINISHED: "supersede"}).parquet(str(dest))
    assert times(dest, spark) == {1: 400}
