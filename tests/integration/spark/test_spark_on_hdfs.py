"""Whole Spark jobs on a real HDFS: tasks write through Hadoop's client, the commit goes by our own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import Outcome
from ray_committer.spark import install, uninstall
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store
from ray_committer.testing import visible_files
from ray_committer.version import jar_path
from tests.servers.hdfs import HdfsServer

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

READ = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars", sys.argv[2])
spark = builder.config("spark.sql.extensions", "io.raycommitter.SnapshotExtensions").getOrCreate()
print(sorted(row[0] for row in spark.read.csv(sys.argv[1]).collect()))
"""


@pytest.fixture
def store(hdfs: HdfsServer) -> StoreOperations:
    return open_store(StoreSpec("hdfs", hdfs.direct_authority))


def write(rows: DataFrame, url: str) -> None:
    """Append twice, overwrite, and replace two of four partitions."""
    rows.write.partitionBy("p").parquet(url)
    rows.write.mode("append").partitionBy("p").parquet(url)
    rows.write.mode("overwrite").partitionBy("p").parquet(url)
    some = rows.where("p < 2").selectExpr("id + 1000 AS id", "text", "p").write.mode("overwrite")
    some.option("partitionOverwriteMode", "dynamic").partitionBy("p").parquet(url)


def files(store: StoreOperations, path: str) -> list[str]:
    """The directories of the data files, one entry a file: names differ from run to run."""
    names = [name for name in visible_files(store, path) if not name.startswith("_")]
    return sorted(name.rpartition("/")[0] for name in names)


def test_a_job_on_hdfs_gives_what_sparks_own_committer_gives(
    spark: SparkSession, rows: DataFrame, hdfs: HdfsServer, store: StoreOperations
):
    root = f"hdfs://{hdfs.direct_authority}/jobs"
    write(rows, f"{root}/theirs")
    installation = install(spark)
    try:
        write(rows, f"{root}/ours %é")
        report = installation.last_report
        assert report is not None
        assert (report.outcome, report.moved, report.replaced) == (Outcome.COMMITTED, 6, 6)
        found, wanted = (
            sorted(map(str, spark.read.parquet(f"{root}/{name}").collect()))
            for name in ("ours %é", "theirs")
        )
        assert found == wanted
        assert len(found) == 600
        assert files(store, "/jobs/ours %é") == files(store, "/jobs/theirs")
        assert store.get_status("/jobs/ours %é/_temporary") is None
        assert b"ray_committer" in store.read("/jobs/ours %é/_SUCCESS")
    finally:
        uninstall(spark)


def read_as(user: str, url: str) -> subprocess.CompletedProcess[str]:
    """Read a table through the snapshot filter, in a driver of another user."""
    return subprocess.run(
        [sys.executable, "-c", READ, url, jar_path()],
        env={**os.environ, "HADOOP_USER_NAME": user},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_reader_who_may_not_read_the_log_gets_no_rows_instead_of_all(
    spark: SparkSession, hdfs: HdfsServer, store: StoreOperations
):
    url = f"hdfs://{hdfs.direct_authority}/logged"
    ray_committer.init_table(url)
    job = ray_committer.setup_job(url)
    with ray_committer.task_attempt(url, job, task=0) as attempt, attempt.open("day=1/a.csv") as file:
        file.write(b"1\n")
    ray_committer.commit_job(url, job, executor="inline")
    store.write("/logged/day=1/b.csv", b"of no job\n")
    found = read_as("guest", url)
    assert found.stdout.splitlines()[-1] == "['1']", found.stderr[-2000:]
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    log = jvm.org.apache.hadoop.fs.Path(f"{url}/_ray_committer")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    log.getFileSystem(conf).setPermission(log, jvm.org.apache.hadoop.fs.permission.FsPermission("700"))
    found = read_as("guest", url)
    assert found.returncode != 0
    assert "may not be read by this user" in found.stderr
