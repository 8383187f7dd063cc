"""Whole Spark jobs on a real HDFS: tasks write through Hadoop's client, the commit goes by our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer import Outcome
from ray_committer.spark import install, uninstall
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store
from ray_committer.testing import visible_files
from tests.servers.hdfs import HdfsServer, hdfs_server

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def server() -> Iterator[HdfsServer]:
    with hdfs_server() as started:
        yield started


@pytest.fixture
def store(server: HdfsServer) -> StoreOperations:
    return open_store(StoreSpec("hdfs", server.direct_authority))


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
    spark: SparkSession, rows: DataFrame, server: HdfsServer, store: StoreOperations
):
    root = f"hdfs://{server.direct_authority}/jobs"
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
