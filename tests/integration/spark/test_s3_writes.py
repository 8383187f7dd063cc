"""Spark's tasks upload their files to S3, through the writers of this package."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from ray_committer.writers.spark_arrow import write_transactional
from tests.servers.fake_s3 import FakeS3, FakeS3Server

pytestmark = [
    pytest.mark.wide,
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
]

ROWS = 40


@pytest.fixture
def server() -> Iterator[FakeS3Server]:
    server = FakeS3Server(FakeS3(forgets=True)).start()
    server.fake.buckets["bucket"] = {}
    yield server
    server.stop()


def found(fake: FakeS3) -> list[tuple[str, int]]:
    """Each row: its partition, from the name of its object, and its id."""
    rows = []
    for name, one in fake.buckets["bucket"].items():
        if name.endswith(".parquet"):
            table = pyarrow.parquet.read_table(io.BytesIO(one.data))
            rows += [(name.split("/")[1], number) for number in table["id"].to_pylist()]
    return sorted(rows)


def test_each_row_is_uploaded_once(spark: SparkSession, server: FakeS3Server):
    frame, url = spark.range(0, ROWS, 1, 3).selectExpr("id", "id % 2 AS p"), "s3://bucket/table"
    options = server.storage_options
    for _ in range(2):
        write_transactional(frame, url, partition_by=["p"], mode="overwrite", storage_options=options)
    assert found(server.fake) == sorted((f"p={number % 2}", number) for number in range(ROWS))
    assert "table/_SUCCESS" in server.fake.buckets["bucket"]
    assert server.fake.uploads == {}
