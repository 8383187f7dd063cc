"""How much faster is a catalog told of a commit's partitions than by ``MSCK REPAIR TABLE``?

A table of 300 partitions in Spark's embedded Hive metastore gets five new ones. In each round the
catalog forgets these, then learns them in three ways: by `tell_catalog`, as after a commit; by the
printed statements; and by ``MSCK REPAIR TABLE``. The order changes from round to round. A ratio is that
of two ways in one round. Each way counts until the catalog knows the partitions.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from pyspark import __version__ as pyspark_version
from pyspark.sql import SparkSession

from ray_committer.protocol.partition_sql import statements
from ray_committer.protocol.partitions import PartitionChanges, partition_at
from ray_committer.spark.catalog import SparkTable
from ray_committer.table_jobs.partitions import open_partitions, tell_catalog

OLD, NEW = 300, 5
ROUNDS = 15
TABLE = "default.t"
ADDED = [f"day={day}" for day in range(OLD, OLD + NEW)]
WAYS = ("tell_catalog", "statements", "msck")


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="catalog_partitions-"))
    try:
        found = measure(home, ROUNDS)
    finally:
        shutil.rmtree(home)
    ratios = {way: sorted(one["msck"] / one[way] for one in found) for way in WAYS[:2]}
    medians = {way: round(statistics.median(all_of), 1) for way, all_of in ratios.items()}
    result: dict[str, Any] = {
        "pyspark": pyspark_version,
        "partitions": {"old": OLD, "new": NEW},
        "seconds": {way: [round(one[way], 4) for one in found] for way in WAYS},
        "times_faster": {way: [round(one, 1) for one in all_of] for way, all_of in ratios.items()},
        "median_times_faster": medians,
    }
    bars = {f"{way}, times faster than MSCK": (medians[way], ">=", 10.0) for way in WAYS[:2]}
    harness.save("catalog_partitions", str(__doc__), result, bars)


def measure(home: Path, rounds: int) -> list[dict[str, float]]:
    """The seconds of each way, of some rounds after one that only warms up."""
    spark = session(home)
    dest = home / "table"
    spark.range(OLD + NEW).selectExpr("id", "id AS day").repartition(4).write.partitionBy("day").parquet(
        str(dest)
    )
    spark.sql(
        f"CREATE TABLE {TABLE} (id BIGINT) PARTITIONED BY (day BIGINT) STORED AS PARQUET "
        f"LOCATION 'file:{dest}'"
    )
    spark.sql(f"MSCK REPAIR TABLE {TABLE}")
    ways: list[tuple[str, Callable[[], None]]] = [
        ("tell_catalog", lambda: tell(spark, dest)),
        ("statements", lambda: run_statements(spark)),
        ("msck", lambda: spark.sql(f"MSCK REPAIR TABLE {TABLE}") and None),
    ]
    found = []
    for number in range(rounds + 1):
        order = ways[number % len(ways) :] + ways[: number % len(ways)]
        found.append({name: timed(spark, way) for name, way in order})
    spark.stop()
    return found[1:]


def session(home: Path) -> SparkSession:
    found = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
        .enableHiveSupport()
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    return found


def timed(spark: SparkSession, way: Callable[[], None]) -> float:
    """The seconds until the catalog knows the new partitions, which it has forgotten before."""
    named = ", ".join(f"PARTITION (day={path.removeprefix('day=')})" for path in ADDED)
    spark.sql(f"ALTER TABLE {TABLE} DROP IF EXISTS {named}")
    assert len(spark.sql(f"SHOW PARTITIONS {TABLE}").collect()) == OLD
    began = time.perf_counter()
    way()
    seconds = time.perf_counter() - began
    assert len(spark.sql(f"SHOW PARTITIONS {TABLE}").collect()) == OLD + NEW
    return seconds


def tell(spark: SparkSession, dest: Path) -> None:
    table = SparkTable(spark, TABLE)
    with open_partitions(str(dest)) as found:
        tell_catalog(found, table, ADDED)
    table.refresh()


def run_statements(spark: SparkSession) -> None:
    changes = PartitionChanges(tuple(map(partition_at, ADDED)))
    for statement in statements(TABLE, changes, lambda _: None):
        spark.sql(statement.rstrip(";"))


if __name__ == "__main__":
    main()
