"""Threads of one application that append to a table and overwrite it, whole and in part, all at once.

``python writers.py MASTER DIRECTORY APPLICATION THREADS ROUNDS`` writes to the table ``DIRECTORY/table``
and prints, as one JSON line, each write: what it was, when it began and ended, and its error if it had
one. The rows of a write bear its name, so `tests.integration.spark.test_many_writers` can judge what is
there in the end.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))
from ray_committer.spark import install
from tests.integration.spark.driver_session import session, stop

ROWS_A_PARTITION = 4
PARTITIONS = 3
KINDS = (*["append"] * 6, "overwrite", "dynamic", "static")
"""How often what is done."""


def write(spark: SparkSession, table: str, name: str, kind: str, partition: int) -> None:
    """One write of rows that bear `name`: to all partitions, or to one."""
    rows = spark.range(0, ROWS_A_PARTITION * PARTITIONS, 1, 2)
    if kind in ("append", "overwrite"):
        frame = rows.selectExpr("id", f"'{name}' AS writer", f"CAST(id % {PARTITIONS} AS INT) AS p")
        frame.write.partitionBy("p").mode(kind).parquet(table)
        return
    mine = rows.where(f"id < {ROWS_A_PARTITION}")
    if kind == "dynamic":
        frame = mine.selectExpr("id", f"'{name}' AS writer", f"{partition} AS p")
        by_partition = frame.write.partitionBy("p").option("partitionOverwriteMode", "dynamic")
        by_partition.mode("overwrite").parquet(table)
        return
    mine.selectExpr("id", f"'{name}' AS writer").createOrReplaceTempView(f"rows_{name}")
    spark.sql(f"INSERT OVERWRITE TABLE t PARTITION (p = {partition}) SELECT * FROM rows_{name}")


def run_thread(
    spark: SparkSession, table: str, application: int, thread: int, rounds: int
) -> list[dict[str, Any]]:
    """The writes of one thread, one after the other."""
    random = Random(f"application {application}, thread {thread}")
    done = []
    for number in range(rounds):
        kind, partition = random.choice(KINDS), random.randrange(PARTITIONS)
        name = f"a{application}t{thread}n{number}"
        begun, error = time.time(), None
        try:
            write(spark, table, name, kind, partition)
        except Exception as e:  # noqa: BLE001 - to be judged
            error = str(e)[:2000]
        written = [partition] if kind in ("dynamic", "static") else list(range(PARTITIONS))
        done.append(
            {
                "name": name,
                "kind": kind,
                "partitions": written,
                "begun": begun,
                "ended": time.time(),
                "error": error,
            }
        )
    return done


def main() -> None:
    master, root = sys.argv[1], Path(sys.argv[2])
    application, threads, rounds = map(int, sys.argv[3:6])
    own = root / f"application-{application}"
    own.mkdir()
    spark = session(master, own)
    spark.sparkContext.setLogLevel("OFF")
    install(spark, executor="threads")
    table = str(root / "table")
    spark.sql(
        f"CREATE TABLE t (id BIGINT, writer STRING, p INT) USING parquet PARTITIONED BY (p) "
        f"LOCATION '{table}'"
    )
    with ThreadPoolExecutor(threads) as pool:
        every = pool.map(
            lambda thread: run_thread(spark, table, application, thread, rounds), range(threads)
        )
        print(json.dumps([one for writes in every for one in writes]))
    stop(spark, master)


if __name__ == "__main__":
    main()
