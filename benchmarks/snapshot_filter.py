"""How much longer does Spark plan a query of a table with a log through SnapshotFilter and its check?

On local files, with one session after the other: a table of 2,000 directories with a file each. A plan
is what `spark.read` does and the physical plan, so it has the listing and no task that reads rows.
Beside it: the first read of the table in the driver, which also reads the log, and the reader of a
directory without a log.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
from pyspark.sql import SparkSession
from pyspark.version import __version__ as spark_version

import ray_committer
from ray_committer.version import jar_path

DIRECTORIES = 2_000
NAME = "part-00000-0e7d3b6c-8b1f-4a55-9d5e-2f8a9c1b7e40-c000.csv"
FILTER = ("mapreduce.input.pathFilter.class", "io.raycommitter.SnapshotFilter")


def make_directory(root: Path) -> Path:
    for day in range(DIRECTORIES):
        place = root / f"day={day:06d}"
        place.mkdir(parents=True)
        (place / NAME).write_text("1\n")
    return root


def sessions() -> tuple[SparkSession, SparkSession]:
    """A session without the filter, and one with the filter and its check, of the same driver."""
    jar = str(jar_path())
    plain = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraClassPath", jar)
        .getOrCreate()
    )
    plain.sparkContext.setLogLevel("OFF")
    jvm = plain.sparkContext._jvm
    assert jvm is not None
    jvm.io.raycommitter.SnapshotExtensions().apply(plain._jsparkSession.extensions())
    plain.sparkContext._jsc.hadoopConfiguration().unset(FILTER[0])
    filtered = plain.newSession()
    filtered.conf.set(*FILTER)
    return plain, filtered


def seconds_of_plan(session: SparkSession, path: Path) -> float:
    begun = time.perf_counter()
    frame = session.read.schema("number INT, day STRING").csv(str(path))
    frame._jdf.queryExecution().executedPlan()
    taken = time.perf_counter() - begun
    assert len(frame.inputFiles()) == DIRECTORIES
    return taken


def compared(plain: SparkSession, filtered: SparkSession, path: Path) -> dict[str, Any]:
    """One plan of each in turn."""

    def once() -> dict[str, float]:
        return {"plain": seconds_of_plan(plain, path), "filter": seconds_of_plan(filtered, path)}

    found = harness.rounds(once)
    ratio = found["median"]["filter"] / found["median"]["plain"]
    return {**found, "ratio": round(ratio, 3)}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="snapshot-filter-", dir=os.environ.get("TMPDIR")))
    plain, filtered = sessions()
    try:
        place = make_directory(root / "table")
        without_log = compared(plain, filtered, place)
        ray_committer.init_table(str(place))
        first = seconds_of_plan(filtered, place)
        table = compared(plain, filtered, place)
    finally:
        plain.stop()
        shutil.rmtree(root)
    harness.save(
        "snapshot_filter",
        __doc__,
        {
            "spark": spark_version,
            "directories": DIRECTORIES,
            "table": table,
            "first_read_seconds": round(first, 4),
            "without_log": without_log,
        },
        {
            "plan of a table, filter / plain directory": (table["ratio"], "<=", 1.3),
            "plan of a directory without a log, filter / plain": (without_log["ratio"], "<=", 1.3),
        },
    )


if __name__ == "__main__":
    main()
