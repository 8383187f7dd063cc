"""Write the flights with plain PySpark, and commit them later in a separate job.

``df.write`` returns after the commit record is written; ``ray-committer commit`` does the rest. Then
Hadoop's own reader, which Spark 4 ships, reads the ``_SUCCESS`` files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import ray_committer
from ray_committer.spark import install

PARTITIONS = ("year", "month", "day", "origin")


def main() -> None:
    """Run the job, and exit with an error if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the flights as CSV")
    parser.add_argument("destination", type=Path, help="a new directory")
    parser.add_argument(
        "--also-read", type=Path, help="a table whose _SUCCESS Hadoop must also be able to read"
    )
    arguments = parser.parse_args()

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    install(spark, commit="deferred")
    flights = spark.read.csv(str(arguments.source), header=True, inferSchema=True)
    flights.repartition(4).write.partitionBy(*PARTITIONS).parquet(str(arguments.destination))

    visible = list(arguments.destination.rglob("year=*"))
    before = [path for path in visible if "_temporary" not in path.parts]
    jobs = ray_committer.list_jobs(str(arguments.destination))
    print(f"df.write returned; {len(before)} files are visible, the job is {jobs[0].state}")

    command = [str(Path(sys.executable).with_name("ray-committer")), "commit"]
    subprocess.run([*command, str(arguments.destination)], check=True, stderr=subprocess.DEVNULL)
    check(spark, flights.count(), arguments.destination)
    for table in filter(None, (arguments.destination, arguments.also_read)):
        read_marker(spark, table)
    spark.stop()


def check(spark: SparkSession, rows: int, destination: Path) -> None:
    """Compare the table's rows with the source's."""
    found = spark.read.parquet(str(destination)).count()
    print(f"{found:,} rows in the table, {rows:,} in the source")
    if found != rows or (destination / "_temporary").exists():
        sys.exit("PROBLEM: the table is not what the source says")


def read_marker(spark: SparkSession, table: Path) -> None:
    """Read a ``_SUCCESS`` file with Hadoop's manifest committer, which raises an error if it cannot."""
    package = spark._jvm.org.apache.hadoop.mapreduce.lib.output.committer.manifest.files
    path = spark._jvm.org.apache.hadoop.fs.Path(str(table / "_SUCCESS"))
    file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    marker = package.ManifestSuccessData.load(file_system, path)
    print(
        f"Hadoop reads {table.name}/_SUCCESS: job {marker.getJobId()}, success {marker.getSuccess()}, "
        f"{marker.getFilenames().size()} file names"
    )


if __name__ == "__main__":
    main()
