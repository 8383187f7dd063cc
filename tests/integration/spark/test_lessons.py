"""What other committers learned the hard way, tried with this one; the names are theirs."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from ray_committer import CommitOptions, Outcome
from ray_committer.events import Event, FilesRenamed
from ray_committer.spark import Installation, install, uninstall
from tests.integration.spark.conftest import data_files

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_jobs_of_the_same_second_stay_apart(installation, rows: DataFrame, tmp_path: Path):
    """SPARK-33402, SPARK-33230, HADOOP-17318: job ids that were made of the time collided."""
    dest = str(tmp_path / "t")

    def append(number: int) -> None:
        rows.selectExpr(f"id + {number * 1000} AS id").write.mode("append").parquet(dest)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(append, range(6)))
    found = rows.sparkSession.read.parquet(dest)
    assert (found.count(), found.distinct().count()) == (3600, 3600)
    assert not (tmp_path / "t" / "_temporary").exists()


@pytest.mark.one_spark
def test_a_failed_job_beside_others_takes_nothing_of_theirs_away(
    installation, rows: DataFrame, tmp_path: Path
):
    """HADOOP-17318: a job's abort cancelled what other jobs were writing."""
    dest = tmp_path / "t"
    fail, wait = failing(), waiting(3.0)

    def append() -> None:
        rows.select(wait("id").alias("id")).write.mode("append").parquet(str(dest))

    other = threading.Thread(target=append)
    other.start()
    with pytest.raises(Exception, match="simulated failure of a task"):
        rows.select(fail("id").alias("id")).write.mode("append").parquet(str(dest))
    other.join()
    assert rows.sparkSession.read.parquet(str(dest)).count() == 600
    only_directories_soon(dest / "_temporary")  # the failed job's other tasks are still being stopped


def test_names_with_spaces_and_percents(installation, rows: DataFrame, tmp_path: Path):
    """HADOOP-17112: a space in a path was written as %20."""
    dest = tmp_path / "a b" / "c %20 +d"
    rows.selectExpr("id", "'x y%20' AS p").write.partitionBy("p").parquet(str(dest))
    assert {str(Path(name).parent) for name in data_files(dest)} == {"p=x y%2520"}
    assert rows.sparkSession.read.parquet(str(dest)).count() == 600


def test_a_long_commit_tells_that_it_goes_on(spark: SparkSession, rows: DataFrame, tmp_path: Path):
    """HADOOP-15961: a committer that said nothing was taken for dead."""
    seen: list[Event] = []
    install(spark, on_event=seen.append, options=CommitOptions(shard_files=1))
    try:
        rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
    finally:
        uninstall(spark)
    done = [event.done for event in seen if isinstance(event, FilesRenamed)]
    assert len(done) > 3
    assert done[-1] == 12


@pytest.mark.one_spark
def test_many_tasks_are_committed_with_few_of_their_files_in_memory(
    installation, spark: SparkSession, tmp_path: Path
):
    """HADOOP-16570: a commit held every file of every task at once."""
    spark.range(200, numPartitions=200).write.parquet(str(tmp_path / "t"))
    assert installation.last_report.manifests == 200
    assert spark.read.parquet(str(tmp_path / "t")).count() == 200


def test_a_task_that_wakes_when_its_job_has_failed_leaves_nothing(
    installation, rows: DataFrame, tmp_path: Path
):
    """HADOOP-17258: an attempt that was given up wrote, and its files were committed with the job's."""
    dest, late = tmp_path / "t", zombie(str(tmp_path / "late"), 3.0)
    with pytest.raises(Exception, match="simulated failure of a task"):
        rows.select(late("id").alias("id")).write.parquet(str(dest))
    deadline = time.monotonic() + 30
    while not (tmp_path / "late").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (tmp_path / "late").exists()
    time.sleep(1.0)  # it goes on to write and to commit
    assert data_files(dest) == set()
    assert not dest.exists() or list(dest.rglob("*-manifest.json")) == []
    rows.write.mode("append").parquet(str(dest))
    assert rows.sparkSession.read.parquet(str(dest)).count() == 600


def test_a_cancelled_job_group_leaves_nothing(
    spark: SparkSession, installation: Installation, rows: DataFrame, tmp_path: Path
):
    dest, wait = tmp_path / "t", waiting(20.0)
    errors: list[Exception] = []

    def write() -> None:
        spark.sparkContext.setJobGroup("to be cancelled", "a write", interruptOnCancel=True)
        try:
            rows.select(wait("id").alias("id")).write.parquet(str(dest))
        except Exception as e:  # noqa: BLE001 - whatever Spark raises
            errors.append(e)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(4)
    spark.sparkContext.cancelJobGroup("to be cancelled")
    thread.join()
    assert "cancelled" in str(errors[0])
    assert data_files(dest) == set()
    assert not dest.exists() or list(dest.rglob("*-manifest.json")) == []


def test_sessions_of_one_driver_are_each_committed(spark: SparkSession, rows: DataFrame, tmp_path: Path):
    other = spark.newSession()
    first, second = install(spark), install(other)
    try:
        for session, name in ((spark, "a"), (other, "b")):
            session.range(10).write.parquet(str(tmp_path / name))
            assert session.read.parquet(str(tmp_path / name)).count() == 10
        uninstall(other)
        rows.write.parquet(str(tmp_path / "c"))
        assert first.last_report is not None
        assert first.last_report.outcome is Outcome.COMMITTED
        assert second.last_report is not None
    finally:
        uninstall(spark)
        uninstall(other)


def only_directories_soon(path: Path) -> None:
    """Wait until no file is there; a task that was stopped as it began may leave its empty directory."""

    def files() -> list[str]:
        return [name for _, _, names in os.walk(path) for name in names]

    deadline = time.monotonic() + 20
    while files() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert files() == []


def failing() -> object:
    @udf("long")
    def fail(value):
        raise RuntimeError("simulated failure of a task")

    return fail


def waiting(seconds: float) -> object:
    """A column function of which each task waits once."""

    @udf("long")
    def wait(value):
        if value < 3:
            time.sleep(seconds)
        return value

    return wait


def zombie(marker: str, seconds: float) -> object:
    """The task of partition 0 fails for good, another wakes up when that is long past."""

    @udf("long")
    def wake(value):
        context = TaskContext.get()
        if context.partitionId() == 0:
            raise RuntimeError("simulated failure of a task")
        if context.partitionId() == 1 and not Path(marker).exists():
            time.sleep(seconds)
            Path(marker).touch()
        return value

    return wake
