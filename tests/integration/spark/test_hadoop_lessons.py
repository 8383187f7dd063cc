"""What Hadoop's committers learned the hard way, tried with this one; the numbers are its issues'."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed
from ray_committer.jobs import open_job
from ray_committer.testing import StoreCall, WrappedStore
from tests.integration.spark.conftest import data_files
from tests.integration.spark.lessons import MANY, installed, overlap
from tests.integration.spark.tasks import JOB_ID, set_up

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_mapreduce_7378_a_job_that_ends_takes_nothing_of_another_away(
    spark: SparkSession, tmp_path: Path
):
    """Also SPARK-53019: a job deleted `_temporary` at its end, with the output of those that ran on."""
    everything = {0: MANY, 1: MANY, 2: 1}
    theirs = overlap(spark, tmp_path / "theirs")
    assert theirs.end != everything
    with installed(spark):
        ours = overlap(spark, tmp_path / "ours")
    assert (ours.end, ours.errors) == (everything, [])


@pytest.mark.wide
def test_hadoop_17318_a_job_that_fails_takes_nothing_of_another_away(
    spark: SparkSession, tmp_path: Path
):
    """A job's abort cancelled what other jobs were writing."""
    everything = {0: MANY, 1: MANY}
    theirs = overlap(spark, tmp_path / "theirs", fails="second")
    assert theirs.end != everything
    with installed(spark):
        ours = overlap(spark, tmp_path / "ours", fails="second")
    assert ours.end == everything
    (error,) = ours.errors
    assert re.match(r"second job:[\s\S]*simulated failure of a task", error)
    assert not (tmp_path / "ours" / "_temporary").exists()


def test_hadoop_17112_names_with_spaces_and_percents(installation, rows: DataFrame, tmp_path: Path):
    """A space in a path was written as %20."""
    dest = tmp_path / "a b" / "c %20 +d"
    rows.selectExpr("id", "'x y%20' AS p").write.partitionBy("p").parquet(str(dest))
    assert {str(Path(name).parent) for name in data_files(dest)} == {"p=x y%2520"}
    assert rows.sparkSession.read.parquet(str(dest)).count() == 600


@pytest.mark.parametrize("small_shards", [1], indirect=True)
@pytest.mark.usefixtures("small_shards")
def test_hadoop_15961_a_long_commit_tells_that_it_goes_on(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """A committer that reported no progress was taken for dead."""
    seen: list[Event] = []
    with installed(spark, on_event=seen.append):
        rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
    done = [event.done for event in seen if isinstance(event, FilesRenamed)]
    assert len(done) > 3
    assert done[-1] == 12


@pytest.mark.wide
def test_hadoop_16570_no_thread_outlives_the_commit_of_many_tasks(
    installation, spark: SparkSession, tmp_path: Path
):
    """Each committer kept its thread pool."""

    def write(tasks: int) -> set[threading.Thread]:
        dest = str(tmp_path / f"{tasks}")
        spark.range(tasks, numPartitions=tasks).write.parquet(dest)
        assert installation.last_report.manifests == tasks
        assert spark.read.parquet(dest).count() == tasks
        # Py4J's threads have no names.
        return {one for one in threading.enumerate() if not one.name.startswith("Thread-")}

    before = write(2)
    assert write(200) <= before


def test_hadoop_17258_the_last_attempt_of_a_task_to_save_its_manifest_counts(
    installation, spark: SparkSession, dest: Path
):
    """The next attempt of a task failed, because the one before it had saved its list of files."""
    job = set_up(spark, dest)
    for number in range(2):
        task = job.task(attempt=number)
        task.begin_file(f"p={number}").write_text("x")
        task.save()
    ray_committer.commit_job(str(dest), JOB_ID, options=CommitOptions(expected_tasks=1))
    assert {str(Path(name).parent) for name in data_files(dest)} == {"p=1"}


def test_hadoop_18568_a_write_can_leave_its_clean_up_for_later(
    spark: SparkSession, rows: DataFrame, dest: Path
):
    """The clean-up took minutes after all data was there, and could not be switched off."""
    with installed(spark, options=CommitOptions(cleanup=False)):
        for _ in range(2):
            rows.write.mode("append").parquet(str(dest))
    assert spark.read.parquet(str(dest)).count() == 1200
    jobs = ray_committer.list_jobs(str(dest))
    assert [job.state for job in jobs] == ["committed", "committed"]
    for job in jobs:
        ray_committer.commit_job(str(dest), job.job_id)
    assert not (dest / "_temporary").exists()
    assert spark.read.parquet(str(dest)).count() == 1200


def test_mapreduce_7500_no_request_looks_for_a_file_before_it_is_moved(
    installation, rows: DataFrame, dest: Path, monkeypatch: pytest.MonkeyPatch
):
    """A look at the source and the destination of each rename doubled the load of the store."""
    calls: list[StoreCall] = []
    opened = open_job.open_store
    monkeypatch.setattr(
        open_job, "open_store", lambda spec, **_: WrappedStore(opened(spec), before=calls.append)
    )
    rows.write.partitionBy("p").parquet(str(dest))
    found = Counter(call.operation for call in calls)
    assert (found["rename"], found["get_status"]) == (12, 2)  # the destination, and an earlier _SUCCESS
