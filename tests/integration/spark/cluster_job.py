"""Two jobs on a standalone cluster whose task attempts do not all end well.

``python cluster_job.py MASTER SLOW SHUFFLED MARKER [KEY=VALUE ...]`` writes to two destinations and
prints a line of JSON for each: first a job where the first attempt of one task does not end, then one
where the second of two stages writes. An executor that saves a manifest halts where no file MARKER is.
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
from ray_committer.spark import Installation, install

SLOW_SECONDS = 200  # longer than a job with a speculative attempt takes on a busy machine


def main(master: str, slow_dest: str, shuffled_dest: str, marker: str, *settings: str) -> None:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for pair in settings:
        builder = builder.config(*pair.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    staged: list[int] = []
    installation = install(
        spark, on_event=lambda _: staged.append(count_staged(slow_dest, shuffled_dest))
    )
    Path(marker).touch()
    write(spark, slow(spark, slow_dest), slow_dest, installation, staged)
    Path(marker).unlink()
    write(spark, shuffled(spark), shuffled_dest, installation, staged)
    spark.stop()


def count_staged(*tables: str) -> int:
    """How many files tasks have left for partitions, those of attempts that do not count included."""
    return sum(len(list(Path(table).glob("_temporary/*/*/*/in/*/*.parquet"))) for table in tables)


def write(
    spark: SparkSession, frame: DataFrame, dest: str, installation: Installation, staged: list[int]
) -> None:
    """Write, and print what was written; `staged` is filled at each event of the commit."""
    staged.clear()
    spark.sparkContext.setJobGroup(dest, "a write")
    started = time.monotonic()
    frame.write.partitionBy("p").parquet(dest)
    seconds = time.monotonic() - started
    again = stages_begun_again(spark, dest)
    spark.sparkContext.setJobGroup("", "")
    written = spark.read.parquet(dest)
    report = installation.last_report
    found = {
        "staged": staged[0],
        "whole": report.whole,
        "by_file": report.by_file,
        "rows": written.count(),
        "distinct": written.select("id").distinct().count(),
        "seconds": seconds,
        "stages_begun_again": again,
    }
    print(json.dumps(found))


def slow(spark: SparkSession, dest: str) -> DataFrame:
    """Eight tasks; the first attempt of one does not end (`HaltingFileSystem`)."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 7:
            Path(f"{dest}-attempt-{context.attemptNumber()}").touch()

    frame = numbers(spark)
    return frame.mapInArrow(rows, frame.schema)


def shuffled(spark: SparkSession) -> DataFrame:
    return numbers(spark).repartition(8, "id")


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 80, numPartitions=8).selectExpr("id", "id % 2 AS p")


def stages_begun_again(spark: SparkSession, group: str) -> int:
    """How many stages of a group's jobs had more than one attempt."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(1 for stage in stages if stage and stage.currentAttemptId > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
