"""Spark's writes in a driver that is connected to a Ray of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, StageStarted
from ray_committer.spark import install, uninstall
from tests.integration.ray.jobs import commit_workers

pytestmark = [
    pytest.mark.spark,
    pytest.mark.ray,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def connected() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.one_spark
def test_hadoop_16798_workers_that_ended_fail_the_write_before_its_tasks(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """A commit began although its threads were being shut down, and failed in the middle."""
    try:
        with ray_committer.commit_pool(CommitOptions(workers=1)) as pool:
            install(spark, executor=pool)
            rows.write.parquet(str(tmp_path / "t"))
        with pytest.raises(Exception, match="its workers have ended"):
            rows.write.mode("append").parquet(str(tmp_path / "t"))
        assert spark.read.parquet(str(tmp_path / "t")).count() == 600
        assert not (tmp_path / "t" / "_temporary").exists()
    finally:
        uninstall(spark)


@pytest.mark.one_spark
def test_workers_start_while_tasks_still_run(spark: SparkSession, tmp_path: Path):
    """The last task goes on only once workers are there, so nothing else can have started them."""
    go = tmp_path / "go"

    @udf("long")
    def wait_if_last(number):
        while number == 2 and not os.path.exists(go):
            time.sleep(0.05)
        return number

    def let_go() -> None:
        while not commit_workers():
            time.sleep(0.05)
        go.touch()

    installation = install(spark, executor="ray", options=CommitOptions(workers=1))
    watcher = threading.Thread(target=let_go, daemon=True)
    watcher.start()
    try:
        column = wait_if_last(col("id")).alias("id")
        spark.range(0, 3, 1, 3).select(column).write.parquet(str(tmp_path / "t"))
        watcher.join()
        report = installation.last_report
        assert report is not None
        assert (report.executor, report.moved) == ("ray", 3)
        assert report.executor_reason == "workers were started while the tasks ran"
        while commit_workers():  # Ray is told to end them and does so in its own time
            time.sleep(0.05)
    finally:
        uninstall(spark)


@pytest.mark.wide
@pytest.mark.one_spark
def test_df_write_commits_on_ray_and_never_starts_another_one(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """The last one here, since it ends the connection."""
    installation = install(spark, executor="ray", options=CommitOptions(workers=2))
    try:
        rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
        assert installation.last_report is not None
        assert installation.last_report.executor == "ray"
        assert installation.last_report.moved == 12

        def shut_down(event: Event) -> None:
            if isinstance(event, StageStarted) and event.stage == "job_stage_load_manifests":
                ray.shutdown()

        install(spark, executor="ray", options=CommitOptions(workers=1), on_event=shut_down)
        with pytest.raises(Exception, match="Ray"):
            rows.write.mode("append").partitionBy("p").parquet(str(tmp_path / "t"))
        assert not ray.is_initialized()
        assert spark.read.parquet(str(tmp_path / "t")).count() == 600
    finally:
        uninstall(spark)
