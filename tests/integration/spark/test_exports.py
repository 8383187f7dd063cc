"""Exports of what Spark writes: rows, partition values and types are those of Spark's reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer import init_table
from ray_committer.spark import Installation

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.wide]

COLUMNS = (
    "id",
    "cast(id as byte) b",
    "cast(id as float) / 3 f",
    "cast(id as decimal(10,2)) d",
    "timestamp_seconds(id * 86399) t",
    "cast('2024-01-31 10:00:00' as timestamp_ntz) n",
    "date_add(date'2024-01-31', int(id)) day_of_row",
    "array(id, null) a",
    "map(text, id) m",
    "struct(id as x, named_struct('y', text) as z) s",
    "cast(text as binary) bin",
)
"""The types that Delta has, of the fixture `rows`."""
PARTITIONS = {
    "an integer": "int(id % 3)",
    "a long": "id % 3 + 3000000000",
    "a double": "double(id % 3) / 2",
    "a date": "date_add(date'2024-02-28', int(id % 3))",
    "a text": "concat(text, int(id % 3))",
    "a text with zeros": "lpad(string(id % 3), 3, '0')",
    "null, too": "if(id % 3 = 0, null, int(id % 3))",
    "null alone": "cast(null as string)",
}


def as_text(rows: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=_text) for row in rows)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value).removesuffix("+00:00")


def spark_rows(frame: DataFrame) -> list[str]:
    return as_text(_plain(row.asDict(recursive=True)) for row in frame.collect())


def delta_rows(table: Path) -> list[str]:
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return as_text({**_plain(row), "m": dict(row["m"])} for row in rows)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.5g}") if name == "f" else value for name, value in row.items()}


@contextmanager
def set_to(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def written(rows: DataFrame, installation: Installation, table: Path, kind: str) -> Iterator[DataFrame]:
    """What Spark reads after two appends and an overwrite of some partitions."""
    table.mkdir()
    init_table(str(table))
    frame = rows.where("id < 60").selectExpr(*COLUMNS, f"{PARTITIONS[kind]} AS p", "int(id % 2) AS q")
    for mode, part in (("append", "id < 30"), ("append", "id >= 30"), ("overwrite", "q = 1")):
        writer = frame.where(part).write.partitionBy("p", "q").mode(mode)
        writer.option("partitionOverwriteMode", "dynamic").parquet(str(table))
        assert installation.last_report is not None
        assert installation.last_report.notices == []
        yield rows.sparkSession.read.parquet(str(table))


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS"])
def test_an_export_has_the_rows_and_types_of_sparks_reading(
    spark: SparkSession,
    installation: Installation,
    rows: DataFrame,
    tmp_path: Path,
    kind: str,
    timestamps: str,
):
    table = tmp_path / "a table é"
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": timestamps,
        "spark.ray_committer.export_delta": "true",
    }
    with set_to(spark, settings):
        for read in written(rows, installation, table, kind):
            assert delta_rows(table) == spark_rows(read)
        schema = json.loads(deltalake.DeltaTable(str(table)).schema().to_json())
        types = _types(json.loads(read.schema.json()))
        if kind == "null alone":  # Spark has a type for it that no table can have
            types["p"] = types["p"].replace("void", "string")
        assert _types(schema) == types


def _types(schema: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["type"] for one in _without_nulls(schema)["fields"]}


def _without_nulls(value: Any) -> Any:
    """Whether a value can be null, and metadata, do not count."""
    if isinstance(value, dict):
        left = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {name: _without_nulls(one) for name, one in value.items() if name not in left}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
