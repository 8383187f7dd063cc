"""A program that reads a table again and again: how many rows each partition has, each time.

``python -m tests.integration.readers.reader arrow|duckdb|spark DIRECTORY`` prints a JSON line for each
sample, with the partitions whose number of rows is another than in the sample before, until its input
ends. It knows nothing of this package.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

Rows = dict[str, int]
Sample = Callable[[], Rows]


def arrow(table: str) -> Sample:
    """A dataset of pyarrow. It passes over hidden files, but lists the directories that they are in, and
    fails if one is deleted meanwhile."""
    import pyarrow as pa
    from pyarrow import dataset

    hive = dataset.partitioning(pa.schema([("p", pa.string())]), flavor="hive")
    schema = pa.schema([("row", pa.int64()), ("p", pa.string())])

    def sample() -> Rows:
        try:
            found = dataset.dataset(table, schema, format="parquet", partitioning=hive)
        except FileNotFoundError as e:
            if f"{table}/_temporary" in str(e):
                return sample()
            raise
        counted = found.to_table(columns=["p"]).group_by("p").aggregate([("p", "count")])
        return dict(zip(counted["p"].to_pylist(), counted["p_count"].to_pylist(), strict=True))

    return sample


def duckdb(table: str) -> Sample:
    """A pattern of DuckDB with one level per partition column."""
    import duckdb

    connection = duckdb.connect()
    read = f"read_parquet('{table}/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)"

    def sample() -> Rows:
        try:
            return dict(connection.sql(f"SELECT p, count(*) FROM {read} GROUP BY p").fetchall())
        except duckdb.IOException as e:
            if "No files found" in str(e):
                return {}
            raise

    return sample


def spark(table: str) -> Sample:
    """Spark without a setting of this package; it lists the directories anew for each query."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def sample() -> Rows:
        found = session.read.schema("row BIGINT, p STRING").parquet(table)
        return {row["p"]: row["count"] for row in found.groupBy("p").count().collect()}

    return sample


def main() -> None:
    kind, table = sys.argv[1:]
    sample = {"arrow": arrow, "duckdb": duckdb, "spark": spark}[kind](table)
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    before: Rows = {}
    while not ended.is_set():
        rows = sample()
        gone = dict.fromkeys(before.keys() - rows.keys(), 0)
        print(json.dumps({p: n for p, n in (gone | rows).items() if before.get(p) != n}), flush=True)
        before = rows
    sys.stdout.flush()
    os._exit(0)  # a session of Spark would take seconds to stop


if __name__ == "__main__":
    assert Path(sys.argv[2]).is_dir()
    main()
