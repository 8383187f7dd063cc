"""A job on a standalone cluster whose task attempts do not all end well.

``python cluster_job.py MASTER DEST JOB [KEY=VALUE ...]`` prints one JSON line. JOB is `slow`, where the
first attempt of one task sleeps, or `shuffled`, where the second of two stages writes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.spark import install


def main(master: str, dest: str, job: str, *settings: str) -> None:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for pair in settings:
        builder = builder.config(*pair.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    install(spark)
    frame = slow(spark, dest) if job == "slow" else shuffled(spark)
    started = time.monotonic()
    frame.write.partitionBy("p").parquet(dest)
    seconds = time.monotonic() - started
    written = spark.read.parquet(dest)
    found = {
        "rows": written.count(),
        "distinct": written.select("id").distinct().count(),
        "seconds": seconds,
        "first_stages": [last_attempt(spark, stage) for stage in (0, 1)],
    }
    print(json.dumps(found))
    spark.stop()


def slow(spark: SparkSession, dest: str) -> DataFrame:
    """Eight tasks, one of which sleeps for a minute in its first attempt."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 7:
            Path(f"{dest}-attempt-{context.attemptNumber()}").touch()
            time.sleep(0 if context.attemptNumber() else 60)

    frame = numbers(spark)
    return frame.mapInArrow(rows, frame.schema)


def shuffled(spark: SparkSession) -> DataFrame:
    return numbers(spark).repartition(8, "id")


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 80, numPartitions=8).selectExpr("id", "id % 2 AS p")


def last_attempt(spark: SparkSession, stage: int) -> int | None:
    """How often a stage was begun again; None if there is none of this number."""
    info = spark.sparkContext.statusTracker().getStageInfo(stage)
    return info.currentAttemptId if info else None


if __name__ == "__main__":
    main(*sys.argv[1:])
