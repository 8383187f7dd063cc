"""Writes of Spark under run ids: in new sessions, twice in one, in batches of streams, in a child."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer import (
    CommitOptions,
    Outcome,
    commit_job,
    history,
    init_table,
    list_jobs,
    setup_job,
    task_attempt,
    undo_version,
)
from ray_committer.errors import SettingsError
from ray_committer.writers.spark_arrow import write_transactional
from tests.integration.spark.jvm import path_with_command

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # PySpark 3.5 compares versions by distutils
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
]

KEY = "spark.ray_committer.run_id"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    dest = tmp_path / "t"
    dest.mkdir()
    init_table(str(dest))
    return dest


def write(rows: DataFrame, table: Path, run_id: str, mode: str = "append") -> None:
    rows.write.mode(mode).option(KEY, run_id).partitionBy("p").parquet(str(table))


def count(spark: SparkSession, table: Path) -> int:
    return spark.read.parquet(str(table)).count()


def test_work_of_another_session_is_committed_already(spark, installation, rows, table: Path):
    options = CommitOptions(run_id="nightly")  # a program without Spark is a session of its own
    job = setup_job(str(table), options=options)
    with task_attempt(str(table), job, 0) as attempt:
        for p in range(4):
            pq.write_table(pa.table({"id": [p]}), attempt.path(f"p={p}/one.parquet"))
    version = commit_job(str(table), job, options=options).table_version
    write(rows, table, "nightly")
    report = installation.last_report
    assert (report.outcome, report.table_version) == (Outcome.ALREADY_COMMITTED, version)
    assert (report.run_id, report.committed_by, count(spark, table)) == ("nightly", job, 4)
    assert list_jobs(str(table)) == []


def test_a_second_write_of_an_application_is_refused_until_the_first_is_undone(
    spark, installation, rows, table: Path
):
    write(rows, table, "nightly")
    with pytest.raises(Exception, match="this session has written under run id nightly before"):
        write(rows, table, "nightly")
    with pytest.raises(Exception, match="this session has written under run id nightly before"):
        write(rows, table, "nightly", "overwrite")
    write(rows, table, "other")
    assert count(spark, table) == 1200
    assert list_jobs(str(table)) == []
    undo_version(str(table), history(str(table))[-1].version)
    write(rows, table, "other")
    assert count(spark, table) == 1200


def test_without_a_log_no_task_runs(spark, installation, rows, tmp_path: Path):
    with pytest.raises(Exception, match="is not a table with a log"):
        write(rows, tmp_path / "plain", "nightly")
    assert not (tmp_path / "plain/_temporary").exists()


def stream(
    spark: SparkSession, place: Path, table: Path, write: Callable[[DataFrame, int], None]
) -> None:
    """Run a stream until it has read all files that are there, each in a batch of its own."""
    source = spark.readStream.schema("id LONG, p LONG").option("maxFilesPerTrigger", 1)
    query = source.json(str(place / "in")).writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", str(place / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


def test_one_run_id_serves_a_stream_and_a_batch_that_is_repeated_is_not_written_again(
    spark, installation, rows, table: Path, tmp_path: Path
):
    rows.select("id", "p").write.json(str(tmp_path / "in"))
    numbers: list[int] = []

    def each(batch: DataFrame, number: int) -> None:
        numbers.append(number)
        write(batch, table, "events")

    stream(spark, tmp_path, table, each)
    assert numbers == [0, 1, 2]
    assert count(spark, table) == 600
    for commit in (tmp_path / "checkpoint/commits").glob("*2*"):
        commit.unlink()
    stream(spark, tmp_path, table, each)  # as after a failure of what follows the write
    assert numbers == [0, 1, 2, 2]
    assert count(spark, table) == 600
    assert installation.last_report.outcome is Outcome.ALREADY_COMMITTED
    assert len({one.run_id for one in history(str(table)) if one.run_id}) == 3


def test_two_writes_of_a_batch_need_two_run_ids(spark, installation, rows, table: Path, tmp_path: Path):
    rows.select("id", "p").coalesce(1).write.json(str(tmp_path / "in"))

    def twice(batch: DataFrame, number: int) -> None:
        write(batch, table, "events")
        write(batch, table, "events")

    with pytest.raises(Exception, match="this session has written under run id events query="):
        stream(spark, tmp_path, table, twice)
    assert count(spark, table) == 600

    def each(batch: DataFrame, number: int) -> None:
        write(batch, table, "events")
        write(batch, table, "more")

    shutil.rmtree(tmp_path / "checkpoint/commits", ignore_errors=True)
    stream(spark, tmp_path, table, each)
    assert count(spark, table) == 1200


def test_a_child_process_is_told_what_its_application_has_written(
    spark, rows, table: Path, tmp_path: Path, configure: Callable[..., None]
):
    command = str(Path(path_with_command(tmp_path / "bin").split(":")[0]) / "ray-committer")
    configure(command=command)
    write(rows, table, "nightly")
    with pytest.raises(Exception, match="this session has written under run id nightly before"):
        write(rows, table, "nightly")
    assert count(spark, table) == 600


def test_writes_by_python_tasks_are_of_the_same_session_and_in_the_same_batches(
    spark, installation, rows, table: Path, tmp_path: Path
):
    options = CommitOptions(run_id="nightly")

    def by_python(batch: DataFrame, number: int = 0) -> None:
        write_transactional(batch.select("id", "p"), str(table), partition_by="p", options=options)

    write(rows, table, "nightly")
    with pytest.raises(SettingsError, match="this session has written under run id nightly before"):
        by_python(rows)
    rows.select("id", "p").write.json(str(tmp_path / "in"))
    stream(spark, tmp_path, table, by_python)
    for commit in (tmp_path / "checkpoint/commits").glob("*2*"):
        commit.unlink()
    stream(spark, tmp_path, table, by_python)
    assert count(spark, table) == 1200
    assert list_jobs(str(table)) == []
