"""Writes after which the catalog of a session must know what ``MSCK REPAIR TABLE`` would find.

``python -m tests.integration.spark.catalog_writes DIRECTORY`` makes them with Spark's embedded Hive
metastore, which only a session of its own has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ray_committer import CommitOptions
from ray_committer.spark import Installation, install

ODD = r"""element_at(
    array('plain', 'a b%/é日本', '😀"q\'\\', 'x:y=z', '${env:HOME}', null, ''), int(id % 7) + 1
)"""


def table_at(spark: SparkSession, dest: Path, name: str) -> Installation:
    """Make a table at a destination; the session's writes tell the catalog of its partitions."""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p INT, q STRING) USING parquet PARTITIONED BY (p, q) "
        f'LOCATION "file:{dest}"'
    )
    return install(spark, options=CommitOptions(catalog_table=name))


def partitions(spark: SparkSession, name: str) -> set[str]:
    return {row.partition for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}


def write(rows: DataFrame, dest: Path, mode: str, overwrite: str = "static") -> None:
    writer = rows.write.mode(mode).option("partitionOverwriteMode", overwrite)
    writer.partitionBy("p", "q").parquet(str(dest))


def rows_of(spark: SparkSession, p: str, q: str = "'x'", rows: int = 3) -> DataFrame:
    return spark.range(rows).selectExpr("id", f"{p} AS p", f"{q} AS q").coalesce(1)


def check(spark: SparkSession, installation: Installation, name: str, rows: int) -> set[str]:
    """The partitions of the catalog, which are those that are there, and its table has all rows."""
    report = installation.last_report
    assert report is not None
    assert (report.notices, report.catalog_command) == ([], "")
    found = partitions(spark, name)
    assert spark.table(name).count() == rows
    spark.sql(f"MSCK REPAIR TABLE {name} SYNC PARTITIONS")
    assert partitions(spark, name) == found
    return found


def make_all(spark: SparkSession, dest: Path, name: str) -> None:
    """Writes of each kind: new partitions, existing ones, one replaced, all replaced."""
    installation = table_at(spark, dest, name)
    write(rows_of(spark, "if(id % 2 = 0, null, int(id % 3))", ODD, 14), dest, "append")
    assert len(check(spark, installation, name, 14)) > 6
    write(rows_of(spark, "7"), dest, "append")
    write(rows_of(spark, "7"), dest, "overwrite", "dynamic")
    assert "p=7/q=x" in check(spark, installation, name, 17)
    write(rows_of(spark, "8"), dest, "overwrite")
    assert check(spark, installation, name, 3) == {"p=8/q=x"}


if __name__ == "__main__":
    home = Path(sys.argv[1])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
        .enableHiveSupport()
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    make_all(session, home / "a table", "t")
    session.stop()
