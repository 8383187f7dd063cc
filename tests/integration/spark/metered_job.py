"""Spark jobs in a driver of their own: how long each took, and what was asked of the store.

``python metered_job.py DIRECTORY '{"committer": ..., "job": ..., ...}' ...`` prints one JSON line a job.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.executors.base import CommitPool
from ray_committer.spark import install, uninstall
from tests.integration.spark.metered import (
    counts,
    last_task_ended,
    metered_conf,
    reset_counts,
    written,
)

_SETTINGS = {
    "v2": {"mapreduce.fileoutputcommitter.algorithm.version": "2"},
    "manifest": {"spark.sql.parquet.output.committer.class": "ManifestBinding"},
}


@dataclass(frozen=True, slots=True)
class MeteredJob:
    """What is written: `files` in each of `partitions`; `job` is append, overwrite or dynamic.

    committer: "ours", "ours on Ray", "v1", which is Spark's own, "v2", or "manifest", Hadoop's.
    """

    committer: str
    job: str = "append"
    millis: int = 0
    partitions: int = 4
    files: int = 2


def run(
    directory: Path, jobs: Iterable[MeteredJob], pool: CommitPool | None = None
) -> Iterator[dict[str, Any]]:
    """Run jobs one after another in one session; `pool` is for those on Ray."""
    spark = session()
    try:
        for number, job in enumerate(jobs):
            with by_committer(spark, job, pool):
                yield _measure(spark, directory / str(number), job)
            shutil.rmtree(directory / str(number))
    finally:
        spark.stop()


def session(settings: Mapping[str, str] = {}) -> SparkSession:
    """A session with the file system that counts, and these settings."""
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.adaptive.enabled", "false")
    for key, value in {**metered_conf(), **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def by_committer(spark: SparkSession, job: MeteredJob, pool: CommitPool | None = None) -> Iterator[None]:
    """What is written here is committed as the job says."""
    if job.committer.startswith("ours"):
        install(spark, executor="auto" if job.committer == "ours" else pool)
    settings = _SETTINGS.get(job.committer, {})
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    if job.committer.startswith("ours"):
        uninstall(spark)
    for key in settings:
        spark.conf.unset(key)


def _measure(spark: SparkSession, directory: Path, job: MeteredJob) -> dict[str, Any]:
    """Write a table, measured; a small one before, so that what starts once has started."""
    dest = str(directory / "table")
    frame = rows_of(spark, job.partitions, job.files)
    write(rows_of(spark, 4, 4), f"{dest}-before", "append", job)
    if job.job != "append":
        write(frame, dest, "append", job)
    reset_counts(spark, millis=job.millis)
    started = time.time()
    write(frame, dest, "append" if job.job == "append" else "overwrite", job)
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


def rows_of(spark: SparkSession, partitions: int, files: int) -> DataFrame:
    """Ten rows for each of `files` in each of `partitions`."""
    rows = spark.range(0, partitions * files * 10, numPartitions=files)
    return rows.selectExpr("id", f"id % {partitions} AS p")


def write(frame: DataFrame, dest: str, mode: str, job: MeteredJob) -> None:
    """Write rows as the job does, to a partition for each value of `p`."""
    writer = frame.write.mode(mode).partitionBy("p")
    if job.job == "dynamic":
        writer = writer.option("partitionOverwriteMode", "dynamic")
    writer.parquet(dest)


if __name__ == "__main__":
    for result in run(Path(sys.argv[1]), [MeteredJob(**json.loads(job)) for job in sys.argv[2:]]):
        print(json.dumps(result))
