"""Spark jobs in a driver of their own: how long each took, and what was asked of the store.

``python metered_job.py DIRECTORY '{"committer": ..., "job": ..., ...}' ...`` prints one JSON line a job.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.spark import install
from tests.integration.spark.metered import (
    counts,
    last_task_ended,
    metered_conf,
    reset_counts,
    written,
)

_ALGORITHM = "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"
_SETTINGS = {
    "ours": {},
    "v1": {_ALGORITHM: "1"},
    "v2": {_ALGORITHM: "2"},
    "manifest": {"spark.sql.parquet.output.committer.class": "ManifestBinding"},
}


@dataclass(frozen=True, slots=True)
class MeteredJob:
    """What is written: `files` in each of `partitions`; `job` is append, overwrite or dynamic.

    committer: "ours", or "v1" and "v2", the algorithms of Spark's own, or "manifest", Hadoop's.
    """

    committer: str
    job: str = "append"
    millis: int = 0
    partitions: int = 4
    files: int = 2
    executor: str = "auto"


def run(directory: Path, jobs: Sequence[MeteredJob], executor: Any = "auto") -> list[dict[str, Any]]:
    """Run jobs one after another, in a session that is made for the committer of the first."""
    spark = _session(directory, jobs[0].committer)
    try:
        return [
            _measure(spark, directory / str(number), job, executor) for number, job in enumerate(jobs)
        ]
    finally:
        spark.stop()


def _measure(spark: SparkSession, directory: Path, job: MeteredJob, executor: Any) -> dict[str, Any]:
    """Write a table, measured; a small one before, so that what starts once has started."""
    if job.committer == "ours":
        install(spark, executor=executor)
    dest = str(directory / "table")
    frame = _rows(spark, job.partitions, job.files)
    _write(_rows(spark, 4, 4), f"{dest}-before", "append", job)
    if job.job != "append":
        _write(frame, dest, "append", job)
    reset_counts(spark, millis=job.millis)
    started = time.time()
    _write(frame, dest, "append" if job.job == "append" else "overwrite", job)
    ended = time.time()
    found, wrote = counts(spark), written(spark)
    reset_counts(spark)
    return {
        "seconds": ended - started,
        "commit_seconds": ended - last_task_ended(spark),
        "driver": {f"{what} {kind}": n for (who, what, kind), n in found.items() if who == "driver"},
        "tasks": {f"{what} {kind}": n for (who, what, kind), n in found.items() if who == "task"},
        "written": wrote,
        "rows": spark.read.parquet(dest).count(),
    }


def _session(directory: Path, committer: str) -> SparkSession:
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.adaptive.enabled", "false")
    for key, value in (_SETTINGS[committer] | metered_conf(directory)).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _rows(spark: SparkSession, partitions: int, files: int) -> DataFrame:
    """Ten rows for each of `files` in each of `partitions`."""
    rows = spark.range(0, partitions * files * 10, numPartitions=files)
    return rows.selectExpr("id", f"id % {partitions} AS p")


def _write(frame: DataFrame, dest: str, mode: str, job: MeteredJob) -> None:
    writer = frame.write.mode(mode).partitionBy("p")
    if job.job == "dynamic":
        writer = writer.option("partitionOverwriteMode", "dynamic")
    writer.parquet(dest)


if __name__ == "__main__":
    for result in run(Path(sys.argv[1]), [MeteredJob(**json.loads(job)) for job in sys.argv[2:]]):
        print(json.dumps(result))
