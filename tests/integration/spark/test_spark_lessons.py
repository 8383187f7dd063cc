"""What Spark learned the hard way about committers, tried with this one; the numbers are its issues'."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.events import Event, StageStarted
from ray_committer.jar import PROTOCOL_CLASS
from ray_committer.spark import Installation, install, uninstall
from tests.integration.spark.conftest import data_files
from tests.integration.spark.lessons import MANY, installed, overlap, waiting
from tests.integration.spark.tasks import JOB_ID, SPARKS_OWN, Task, set_up

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_spark_33402_jobs_of_the_same_second_stay_apart(installation, rows: DataFrame, tmp_path: Path):
    """Also SPARK-33230: job ids that were made of the time collided."""
    dest = str(tmp_path / "t")

    def append(number: int) -> None:
        rows.selectExpr(f"id + {number * 1000} AS id").write.mode("append").parquet(dest)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(append, range(6)))
    found = rows.sparkSession.read.parquet(dest)
    assert (found.count(), found.distinct().count()) == (3600, 3600)
    assert not (tmp_path / "t" / "_temporary").exists()


@pytest.mark.wide
def test_spark_24238_a_job_that_ends_publishes_nothing_of_another_that_fails(
    spark: SparkSession, tmp_path: Path
):
    """All jobs wrote to the same directory below `_temporary`, and each committed all that was there."""
    theirs = overlap(spark, tmp_path / "theirs", fails="first")
    assert theirs.errors
    assert theirs.between == theirs.end == {0: MANY, 2: 1}
    with installed(spark):
        ours = overlap(spark, tmp_path / "ours", fails="first")
    (error,) = ours.errors
    assert re.match(r"first job:[\s\S]*simulated failure of a task", error)
    assert ours.between == ours.end == {2: 1}


def test_spark_29037_the_next_job_publishes_nothing_of_one_that_was_killed(
    spark: SparkSession, tmp_path: Path
):
    """The committed tasks of a killed job were in the directory from which the next one committed."""

    def kill_one_and_append(dest: Path, protocol: str) -> int:
        killed = set_up(spark, dest, protocol=protocol).task()
        write_text(killed)
        killed.save()
        return rows_after_an_append(spark, dest)

    assert kill_one_and_append(tmp_path / "theirs", SPARKS_OWN) == 3
    with installed(spark):
        assert kill_one_and_append(tmp_path / "ours", PROTOCOL_CLASS) == 2


def test_spark_31438_a_task_that_outlives_its_job_leaves_nothing(spark: SparkSession, tmp_path: Path):
    """It wrote on below `_temporary`, which nobody removed then, and the next job committed that."""

    def outlive(dest: Path, protocol: str) -> Task:
        job = set_up(spark, dest, protocol=protocol)
        late = job.task()
        job.abort()
        write_text(late)
        return late

    outlive(tmp_path / "theirs", SPARKS_OWN).save()
    assert rows_after_an_append(spark, tmp_path / "theirs") == 3
    with installed(spark):
        late = outlive(tmp_path / "ours", PROTOCOL_CLASS)
        with pytest.raises(Py4JJavaError, match="never set up, or it is already cleaned up"):
            late.save()
        late.protocol.abortTask(late.context)  # as Spark does
        assert not (tmp_path / "ours" / "_temporary").exists()
        assert rows_after_an_append(spark, tmp_path / "ours") == 2


def test_spark_27194_a_file_that_an_attempt_left_is_not_in_the_way_of_the_next(
    installation, spark: SparkSession, dest: Path
):
    """Also SPARK-29302: attempts of a task that overwrote partitions had one file name in common."""
    (dest / "p=1").mkdir(parents=True)
    (dest / "p=1" / "old").touch()
    job = set_up(spark, dest, dynamic_partition_overwrite=True)
    for number in range(2):
        task = job.task(attempt=number)
        with task.begin_file("p=1").open("x") as file:
            file.write(f"of attempt {number}")
    task.save()
    roots = (str(dest / "p=1"),)
    options = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=roots, expected_tasks=1)
    ray_committer.commit_job(str(dest), JOB_ID, options=options)
    (name,) = data_files(dest)
    assert (dest / name).read_text() == "of attempt 1"


def test_spark_35279_and_44884_an_overwrite_of_partitions_leaves_a_success_file(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """It was made in the directory that Spark stages in, and deleted with that."""

    def overwrite(dest: Path) -> Path:
        rows.write.partitionBy("p").parquet(str(dest))
        (dest / "_SUCCESS").unlink()
        again = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        again.partitionBy("p").parquet(str(dest))
        return dest / "_SUCCESS"

    assert not overwrite(tmp_path / "theirs").exists()
    with installed(spark):
        success = overwrite(tmp_path / "ours")
    assert json.loads(success.read_bytes())["committer"] == "ray_committer"


def test_spark_34355_who_waits_for_a_write_sees_how_far_its_commit_is(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A commit that logged nothing was taken for one that hangs."""

    def slow(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "job_stage_rename_files":
            time.sleep(0.5)

    with installed(spark, on_event=slow, progress_seconds=0.1):
        rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
    assert f"ray_committer: {tmp_path}/t: rename_files, " in capsys.readouterr().err.replace("file:", "")


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


def write_text(task: Task) -> None:
    """Write a line to a partition, and make the directories above it, as Hadoop does."""
    file = task.begin_file("p=1")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("of a task whose job was not committed\n")


def rows_after_an_append(spark: SparkSession, dest: Path) -> int:
    """Append two rows; how many are there then."""
    new = spark.range(2).selectExpr("CAST(id AS STRING) AS value", "1 AS p")
    new.write.mode("append").partitionBy("p").text(str(dest))
    return spark.read.text(str(dest)).count()
