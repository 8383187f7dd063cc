"""Column functions that wait and fail, and two jobs that overlap."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from ray_committer.spark import Installation, install, uninstall


@contextmanager
def installed(spark: SparkSession, **settings: Any) -> Iterator[Installation]:
    """Commit this session's writes for the length of a block; before and after, Spark's own does."""
    try:
        yield install(spark, **settings)
    finally:
        uninstall(spark)


MANY = 2_000
"""So many rows that a task writes some of them while its last row is held."""


@dataclass(frozen=True)
class Overlap:
    """How many rows of each task a reader saw while the first of two jobs ran on, and in the end.

    The first job's tasks are 0 and 1, with MANY rows each, the second job's is 2, with one row. `errors`
    begin with the name of their job.
    """

    between: Counter[int]
    end: Counter[int]
    errors: list[str]


def overlap(
    spark: SparkSession, dest: Path, *, fails: Literal["first", "second"] | None = None
) -> Overlap:
    """Append to a table, and again while the last row is held; one of the two jobs can fail."""
    go = dest.with_name(f"{dest.name}-go")
    held, last = 2 * MANY - 1, 2 * MANY
    hold = padded(held=held, go=go, fails=held if fails == "first" else None)
    pad = padded(fails=last if fails == "second" else None)

    def append(rows: DataFrame, name: str) -> list[str]:
        spark.sparkContext.setJobGroup(f"{dest} {name}", name)
        try:
            rows.write.mode("append").parquet(str(dest))
        except Exception as e:  # noqa: BLE001 - to be judged
            return [f"{name} job: {e}"]
        return []

    with ThreadPoolExecutor(2) as threads:
        many, one = spark.range(0, last, 1, 2), spark.range(last, last + 1, 1, 1)
        first = threads.submit(append, many.select(hold("id").alias("id")), "first")
        try:
            wait_for_both_tasks(spark, f"{dest} first", dest)
            second = threads.submit(append, one.select(pad("id").alias("id")), "second")
            errors = second.result(120)
            between = rows_by_task(spark, dest)
        finally:
            go.touch()
        errors += first.result(120)
    return Overlap(between, rows_by_task(spark, dest), errors)


def rows_by_task(spark: SparkSession, dest: Path) -> Counter[int]:
    rows = spark.read.schema("id string").parquet(str(dest))
    found = rows.selectExpr(f"CAST(id AS INT) DIV {MANY} AS task").groupBy("task").count()
    return Counter({row["task"]: row["count"] for row in found.collect()})


def wait_for_both_tasks(spark: SparkSession, group: str, dest: Path) -> None:
    """Wait until the task of partition 0 has ended, and that of partition 1 writes."""
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 120
    while True:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        ended = sum(stage.numCompletedTasks for stage in stages if stage)
        begun = sorted(path.name for path in dest.rglob("part-0000*"))
        if ended and any(name.startswith("part-00001") for name in begun):
            return
        assert time.monotonic() < deadline, (ended, begun)
        time.sleep(0.05)


def padded(*, held: int | None = None, go: Path = Path(), fails: int | None = None) -> Any:
    """Make long text of numbers; at `held` wait for the file `go`, at `fails` fail."""

    @udf("string")
    def pad(value):
        while value == held and not go.exists():
            time.sleep(0.05)
        if value == fails:
            raise RuntimeError("simulated failure of a task")
        return str(value).zfill(100)

    return pad


def waiting(seconds: float) -> Any:
    """A column function of which each task waits once."""

    @udf("long")
    def wait(value):
        if value < 3:
            time.sleep(seconds)
        return value

    return wait
