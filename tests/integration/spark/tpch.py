"""The two large tables of TPC-H, written by Spark with each committer and judged by DuckDB.

``python tpch.py MASTER SOURCE DIRECTORY '{"committer": ..., "table": ..., "job": ...}' ...`` makes the
writes in one session and prints, as one JSON line each, how long it took and what DuckDB's answers are
for the table that is there. `generate` makes the source.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.base import CommitPool
from ray_committer.spark import install, uninstall
from tests.integration.spark.metered import compiled, last_task_ended

PROGRAMS = Path(sys.executable).parent
TASKS = 4
OPTIONS = CommitOptions(workers=2)


@dataclass(frozen=True, slots=True)
class Table:
    """How a table is partitioned, which partitions a dynamic overwrite replaces, and the column that is
    `wrong` in them before."""

    partition_by: str
    type: str
    part: str
    column: str
    wrong: str


TABLES = {
    "lineitem": Table(
        partition_by="l_shipdate",
        type="DATE",
        part="l_shipdate >= DATE '1994-07-01'",
        column="l_quantity",
        wrong="CAST(l_quantity + 1 AS DECIMAL(15, 2))",
    ),
    "orders": Table(
        partition_by="o_orderpriority",
        type="VARCHAR",
        part="o_orderpriority < '3'",
        column="o_orderdate",
        wrong="date_add(o_orderdate, 1000)",
    ),
}
JOBS = ("append", "overwrite", "dynamic")

QUERIES = {
    "Q1": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
            sum(l_extendedprice * (1 - l_discount)),
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
            avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        FROM {lineitem} WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY
        GROUP BY ALL ORDER BY ALL""",
    "Q4": """
        SELECT o_orderpriority, count(*) FROM {orders}
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND EXISTS (
            FROM {lineitem} WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY ALL ORDER BY ALL""",
    "Q6": """
        SELECT sum(l_extendedprice * l_discount) FROM {lineitem}
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
            AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
}


@dataclass(frozen=True, slots=True)
class TpchWrite:
    """What is written, and by which committer: Spark's "v1", or ours in "threads", on "ray", or
    "deferred" and then finished by the command.

    job: "append" to no data; "overwrite" of the whole table; "dynamic" overwrite of a part of it.
    """

    committer: str
    table: str = "lineitem"
    job: str = "append"


def generate(source: Path, scale: float) -> None:
    """Make the tables, as one Parquet file each."""
    command = [PROGRAMS / "tpchgen-cli", "parquet", "--quiet", "--no-progress", "--scale-factor"]
    command += [str(scale), "--tables", ",".join(TABLES), "--output-dir", source]
    subprocess.run(command, check=True)


def answers(source: Path, **written: Path) -> dict[str, list[str]]:
    """DuckDB's answers; from the tables that were `written`, or else from the source."""
    tables = {name: f"'{source}/{name}.parquet'" for name in TABLES}
    for name, dest in written.items():
        column, kind = TABLES[name].partition_by, TABLES[name].type
        tables[name] = f"read_parquet('{dest}/*/*.parquet', hive_types = {{'{column}': {kind}}})"
    with duckdb.connect() as connection:
        return {
            name: list(map(str, connection.sql(query.format(**tables)).fetchall()))
            for name, query in QUERIES.items()
        }


def run(
    spark: SparkSession,
    source: Path,
    directory: Path,
    writes: Iterable[TpchWrite],
    *,
    pool: CommitPool | None = None,
) -> Iterator[dict[str, Any]]:
    """Make the writes one after another; `pool` is for those on Ray."""
    for name in TABLES:
        old_data(spark, source, directory, name)
    for number, write in enumerate(writes):
        dest = directory / f"{number}"
        if write.job != "append":
            shutil.copytree(directory / f"{write.table}-old", dest)
        os.sync()
        frame = rows(spark, source, write.table)
        if write.job == "dynamic":
            frame = frame.where(TABLES[write.table].part)
        with committer(spark, write, pool):
            begun = time.time()
            save(frame, write, dest)
            written = time.time()
        if write.committer == "deferred":
            command = [PROGRAMS / "ray-committer", "commit", dest]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ended = time.time()
        yield {
            "seconds": ended - begun,
            "commit_seconds": ended - last_task_ended(spark),
            "command_seconds": ended - written,
            "files": sum(1 for _ in dest.glob("*/*.parquet")),
            "answers": answers(source, **{write.table: dest}),
        }
        shutil.rmtree(dest)


def rows(spark: SparkSession, source: Path, name: str) -> DataFrame:
    """All rows of a table, those of a partition in one task."""
    frame = spark.read.parquet(f"{source}/{name}.parquet")
    return frame.repartition(TASKS, TABLES[name].partition_by)


def old_data(spark: SparkSession, source: Path, directory: Path, name: str) -> None:
    """Write what the overwrites meet: the table, with a column that is wrong in a part of it."""
    table = TABLES[name]
    column = f"IF({table.part}, {table.wrong}, {table.column}) AS {table.column}"
    frame = rows(spark, source, name)
    wrong = frame.selectExpr(*(column if one == table.column else one for one in frame.columns))
    save(wrong, TpchWrite("v1", name), directory / f"{name}-old")


def save(frame: DataFrame, write: TpchWrite, dest: Path) -> None:
    writer = frame.write.partitionBy(TABLES[write.table].partition_by)
    writer = writer.mode("append" if write.job == "append" else "overwrite")
    if write.job == "dynamic":
        writer = writer.option("partitionOverwriteMode", "dynamic")
    writer.parquet(str(dest))


@contextmanager
def committer(spark: SparkSession, write: TpchWrite, pool: CommitPool | None) -> Iterator[None]:
    if write.committer == "deferred":
        install(spark, commit="deferred", progress_seconds=0)
    elif write.committer != "v1":
        install(spark, executor=pool or "threads", options=OPTIONS, progress_seconds=0)
    yield
    if write.committer != "v1":
        uninstall(spark)


@contextmanager
def session(master: str) -> Iterator[tuple[SparkSession, CommitPool | None]]:
    """A session; that of RayDP with a pool that commits, if `master` says so."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraClassPath": str(compiled()),
        "spark.extraListeners": "LastTask",
    }
    with on_raydp(conf) if master == "raydp" else on_spark(master, conf) as (spark, pool):
        spark.sparkContext.setLogLevel("OFF")
        yield spark, pool


@contextmanager
def on_spark(master: str, conf: dict[str, str]) -> Iterator[tuple[SparkSession, None]]:
    builder = SparkSession.builder.master(master).config("spark.driver.memory", "2g")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark, None
    finally:
        spark.stop()


@contextmanager
def on_raydp(conf: dict[str, str]) -> Iterator[tuple[SparkSession, CommitPool]]:
    import ray
    import raydp

    ray.init(address="local", num_cpus=6, include_dashboard=False, log_to_driver=False)
    try:
        spark = raydp.init_spark("tpch", 2, 1, "2g", configs=conf)
        with ray_committer.commit_pool(OPTIONS) as pool:
            yield spark, pool
    finally:
        raydp.stop_spark()
        ray.shutdown()


def main() -> None:
    master, source, directory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    writes = [TpchWrite(**json.loads(text)) for text in sys.argv[4:]]
    with session(master) as (spark, pool):
        for found in run(spark, source, directory, writes, pool=pool):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
