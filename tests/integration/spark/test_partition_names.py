"""Spark itself names partitions of random values: the writers of this package give them those names."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from ray_committer.writers.hive_partitions import split_by_partition

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.wide]

VALUES = 1_000


def any_double(of: random.Random) -> float:
    kinds: list[Callable[[], float]] = [
        lambda: struct.unpack(">d", of.randbytes(8))[0],
        lambda: of.randint(-(10**9), 10**9) / 10 ** of.randint(0, 12),
        lambda: float(of.randint(0, 10 ** of.randint(1, 25))),
        lambda: of.choice([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e7, 1e-3, 5e-324]),
    ]
    return of.choice(kinds)()


def any_float(of: random.Random) -> float:
    value = of.choice([any_double(of), struct.unpack(">f", of.randbytes(4))[0]])
    value = value if abs(value) < 3.4e38 or value != value else 1.5
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


def any_text(of: random.Random) -> str:
    return "".join(of.choice(" aé日😀_.%/=:\\\"'#*?{}[]^\x01\x7f") for _ in range(of.randint(0, 5)))


def any_time(of: random.Random) -> datetime:
    fraction = of.choice([0, of.randint(0, 999_999), of.randint(0, 999) * 1000])
    seconds = of.randint(-60_000_000_000, 250_000_000_000)
    return datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=fraction)


TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "double": (pa.float64(), any_double),
    "float": (pa.float32(), any_float),
    "decimal": (
        pa.decimal128(38, 18),
        lambda of: Decimal(of.randint(-(10 ** of.randint(0, 37)), 10**6)).scaleb(-18),
    ),
    "whole decimal": (pa.decimal128(20, 0), lambda of: Decimal(of.randint(-(10**9), 10**19))),
    "date": (pa.date32(), lambda of: date(1, 1, 1) + timedelta(days=of.randint(0, 3_652_058))),
    "timestamp": (pa.timestamp("us", "UTC"), any_time),
    "boolean": (pa.bool_(), lambda of: of.random() < 0.5),
    "byte": (pa.int8(), lambda of: of.randint(-128, 127)),
    "long": (pa.int64(), lambda of: of.randint(-(2**63), 2**63 - 1)),
    "text": (pa.string(), any_text),
}


@pytest.mark.parametrize("name", TYPES)
def test_random_values_have_the_names_that_spark_gives_them(
    name: str, spark: SparkSession, tmp_path: Path
):
    kind, any_value = TYPES[name]
    of = random.Random(name)
    different = {repr(value): value for value in (any_value(of) for _ in range(VALUES))}
    values = [None, *different.values()]  # Spark fails if 0.0 and -0.0 take turns
    rows = pa.table({"id": range(len(values)), "p": pa.array(values, kind)})
    zone = spark.conf.get("spark.sql.session.timeZone")
    if pa.types.is_timestamp(kind):  # as a task of Spark gets them
        rows = rows.set_column(1, "p", rows["p"].cast(pa.timestamp("us", zone)))
    (tmp_path / "rows").mkdir()
    pyarrow.parquet.write_table(
        rows, tmp_path / "rows" / "a.parquet", use_deprecated_int96_timestamps=False
    )
    read = spark.read.option("datetimeRebaseMode", "CORRECTED")
    read.parquet(str(tmp_path / "rows")).coalesce(1).write.partitionBy("p").csv(str(tmp_path / "t"))
    named = {path.name for path in (tmp_path / "t").iterdir() if "=" in path.name}
    java = int(spark.sparkContext._jvm.System.getProperty("java.specification.version"))
    is_later = spark.conf.get("spark.sql.ansi.enabled") == "true" if "decimal" in name else java >= 19
    ours = dict(split_by_partition(rows, ["p"], lambda found: found[-1 if is_later else 0]))
    assert named == set(ours)
