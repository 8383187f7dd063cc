"""Every way in which Spark writes files, each done by Spark's own committer and by us.

``python matrix.py MASTER DIRECTORY [CASE ...]`` runs them, or those that are named, in one driver of its
own and prints, as one JSON line, what each left for either. A case is a function; what `snapshot` takes
is compared.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer import CommitOptions
from ray_committer.spark import install, uninstall

FORMATS = ("parquet", "orc", "csv", "json", "text")
ODD = "element_at(array('plain', 'a b%/é日本', '😀\"''q', 'x:y=z'), int(id % 4) + 1)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case writes: a directory, and a table of the catalog if it makes one."""

    spark: SparkSession
    dest: str
    table: str

    def rows(self, start: int = 0) -> DataFrame:
        """60 rows in three tasks; `p` has four values, one of them null, `text` odd characters."""
        rows = self.spark.range(start, start + 60, numPartitions=3)
        return rows.selectExpr("id", f"{ODD} AS text", "IF(id % 4 = 3, NULL, id % 4) AS p")

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(table=self.table, dest=self.dest))


Case = Callable[[Place], DataFrame]
"""Writes, and returns how what it wrote is read."""

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def _of_format(file_format: str, columns: list[str]) -> Case:
    def write(place: Place) -> DataFrame:
        for start, mode in (
            (0, "error"),
            (100, "append"),
            (200, "overwrite"),
            (300, "append"),
            (400, "ignore"),
        ):
            rows = place.rows(start)
            if file_format == "text":
                rows = rows.select("text", *columns)
            rows.write.mode(mode).partitionBy(*columns).format(file_format).save(place.dest)
        read = place.spark.read.schema(rows.schema) if file_format != "parquet" else place.spark.read
        return read.format(file_format).load(place.dest)

    return write


for _format in FORMATS:
    CASES[_format] = _of_format(_format, [])
    CASES[f"{_format}_partitioned"] = _of_format(_format, ["p"])


@case
def partitions_of_odd_values(place: Place) -> DataFrame:
    place.rows().write.partitionBy("text", "p").parquet(place.dest)
    return place.spark.read.parquet(place.dest)


@case
def dynamic_overwrite(place: Place) -> DataFrame:
    place.rows().write.partitionBy("p").parquet(place.dest)
    new = place.rows(100).where("p = 1 OR p IS NULL").write.mode("overwrite").partitionBy("p")
    new.option("partitionOverwriteMode", "dynamic").parquet(place.dest)
    return place.spark.read.parquet(place.dest)


@case
def nothing_at_all(place: Place) -> DataFrame:
    place.rows().where("id < 0").write.partitionBy("p").parquet(place.dest)
    place.rows().where("id < 0").write.mode("append").json(f"{place.dest}/json")
    return place.spark.read.schema("id long").json(f"{place.dest}/json")


@case
def an_overwrite_with_nothing(place: Place) -> DataFrame:
    place.rows().write.parquet(place.dest)
    place.rows().where("id < 0").write.mode("overwrite").parquet(place.dest)
    return place.spark.read.parquet(place.dest)


@case
def buckets(place: Place) -> DataFrame:
    writer = place.rows().write.option("path", place.dest).partitionBy("p").bucketBy(2, "id")
    writer.sortBy("id").saveAsTable(place.table)
    place.rows(100).write.insertInto(place.table)
    return place.spark.table(place.table)


@case
def a_managed_table(place: Place) -> DataFrame:
    place.rows().write.partitionBy("p").saveAsTable(place.table)
    place.rows(100).write.mode("append").partitionBy("p").saveAsTable(place.table)
    place.rows(200).write.mode("overwrite").partitionBy("p").saveAsTable(place.table)
    return place.spark.table(place.table)


@case
def a_table_from_a_query(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} USING orc PARTITIONED BY (p) LOCATION '{dest}' AS SELECT * FROM rows"
    )
    place.sql("INSERT INTO {table} SELECT id + 100, text, p FROM rows")
    place.sql("INSERT INTO {table} PARTITION (p = 7) SELECT id + 200, text FROM rows")
    return place.spark.table(place.table)


@case
def insert_overwrite_of_a_static_partition(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} USING parquet PARTITIONED BY (p) LOCATION '{dest}' AS SELECT * FROM rows"
    )
    place.sql(
        "INSERT OVERWRITE TABLE {table} PARTITION (p = 1) SELECT id + 100, text FROM rows WHERE id < 9"
    )
    return place.spark.table(place.table)


@case
def insert_overwrite_of_a_whole_table(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} USING parquet PARTITIONED BY (p) LOCATION '{dest}' AS SELECT * FROM rows"
    )
    place.sql("INSERT OVERWRITE TABLE {table} SELECT id + 100, text, p FROM rows WHERE p = 2")
    return place.spark.table(place.table)


@case
def insert_overwrite_of_dynamic_partitions(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} USING parquet PARTITIONED BY (p) LOCATION '{dest}' AS SELECT * FROM rows"
    )
    with setting(place.spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        place.sql("INSERT OVERWRITE TABLE {table} SELECT id + 100, text, p FROM rows WHERE p = 2")
    return place.spark.table(place.table)


@case
def partitions_elsewhere(place: Place) -> DataFrame:
    """One partition of the table has a location of its own, outside of the table's."""
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} (id BIGINT, text STRING, p BIGINT) USING parquet PARTITIONED BY (p) "
        "LOCATION '{dest}'"
    )
    place.sql("ALTER TABLE {table} ADD PARTITION (p = 1) LOCATION '{dest}-elsewhere/one'")
    place.sql("INSERT INTO {table} SELECT * FROM rows")
    place.sql(
        "INSERT OVERWRITE TABLE {table} PARTITION (p = 1) SELECT id + 100, text FROM rows WHERE id < 9"
    )
    with setting(place.spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        place.sql("INSERT OVERWRITE TABLE {table} SELECT id + 200, text, p FROM rows WHERE p > 0")
    return place.spark.table(place.table)


@case
def a_table_of_hive(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    place.sql(
        "CREATE TABLE {table} (id BIGINT, text STRING) PARTITIONED BY (p BIGINT) "
        "STORED AS TEXTFILE LOCATION '{dest}'"
    )
    place.sql("INSERT INTO {table} PARTITION (p = 1) SELECT id, text FROM rows")
    place.sql("INSERT OVERWRITE TABLE {table} PARTITION (p) SELECT id, text, p FROM rows WHERE p < 2")
    place.sql("INSERT INTO {table} PARTITION (p) SELECT id + 100, text, p FROM rows WHERE p >= 0")
    return place.spark.table(place.table)


@case
def batches_of_a_stream(place: Place) -> DataFrame:
    source = f"{place.dest}-source"
    for start in (0, 100):
        place.rows(start).write.mode("append").json(source)

    def write(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").partitionBy("p").parquet(place.dest)

    stream = place.spark.readStream.schema(place.rows().schema).json(source).writeStream
    stream = stream.option("checkpointLocation", f"{place.dest}-checkpoint").foreachBatch(write)
    stream.trigger(availableNow=True).start().awaitTermination()
    return place.spark.read.parquet(place.dest)


@case
def a_directory(place: Place) -> DataFrame:
    place.rows().createOrReplaceTempView("rows")
    for _ in range(2):
        place.sql("INSERT OVERWRITE DIRECTORY '{dest}' USING json SELECT * FROM rows")
    return place.spark.read.json(place.dest)


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Any:
    spark.conf.set(key, value)
    yield
    spark.conf.unset(key)


def snapshot(place: Place, frame: DataFrame) -> dict[str, Any]:
    """What a case left: rows, schema, files of each directory, permissions, and what is left over."""
    root = Path(place.dest)
    if not root.exists():
        root = Path(frame.inputFiles()[0].removeprefix("file://")).parents[1]
    names = [*root.rglob("*"), *Path(f"{place.dest}-elsewhere").rglob("*")]
    data = [path for path in names if path.is_file() and not path.name.startswith(("_", "."))]

    def shown(path: Path) -> str:
        return str(path).replace(str(root), "")

    return {
        "rows": sorted(str(tuple(row)) for row in frame.collect()),
        "schema": frame.schema.json(),
        "files": sorted(Counter(shown(path.parent) for path in data).items()),
        "modes": sorted(
            {shown(path): oct(path.stat().st_mode) for path in {path.parent for path in data}}.items()
        ),
        "file modes": sorted({oct(path.stat().st_mode) for path in data}),
        "success": (root / "_SUCCESS").exists(),
        "left over": sorted(
            path.name
            for path in names
            if path.name.startswith(("_temporary", ".spark-staging", ".hive"))
        ),
    }


def run(spark: SparkSession, root: Path, names: list[str]) -> dict[str, Any]:
    """Each case by Spark's own committer and by us; `commits` counts what our handler was asked."""
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Any] = {name: {} for name in names}
    for who in ("theirs", "ours"):
        if who == "ours":
            installation = install(spark, executor="auto", options=CommitOptions(workers=2))
        for name in names:
            place = Place(spark, str(root / who / name), f"{who}_{name}")
            before = installation.handler.commits if who == "ours" else 0
            found[name][who] = snapshot(place, CASES[name](place))
            found[name]["commits"] = (installation.handler.commits if who == "ours" else 0) - before
    uninstall(spark)
    return found


def session(master: str, root: Path) -> SparkSession:
    """A session with Hive's catalog in `root`; of RayDP if `master` says so."""
    metastore = f"jdbc:derby:;databaseName={root}/metastore;create=true"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.hadoop.hive.exec.scratchdir": str(root / "scratch"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root}",
    }
    if master == "raydp":
        import ray
        import raydp

        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
        return raydp.init_spark("matrix", 1, 1, "600M", configs=settings)
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop(spark: SparkSession, master: str) -> None:
    """End a session, and the Ray that was started for it."""
    if master != "raydp":
        spark.stop()
        return
    import ray
    import raydp

    raydp.stop_spark()
    ray.shutdown()


def main() -> None:
    master, root = sys.argv[1], Path(sys.argv[2])
    os.umask(0o027)  # of the JVM, too, which is started from here
    spark = session(master, root)
    try:
        print(json.dumps(run(spark, root, sys.argv[3:] or list(CASES))))
    finally:
        stop(spark, master)


if __name__ == "__main__":
    main()
