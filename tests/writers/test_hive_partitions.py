"""Directories of partitions: names as Spark's, every row in one, none lost."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from ray_committer.protocol.partition_names import escape, partition_name
from ray_committer.writers.hive_partitions import (
    is_partition_type,
    partition_texts,
    split_by_partition,
)

ZONE = datetime.timezone(datetime.timedelta(hours=2))


def split(table: pa.Table, *columns: str) -> dict[str, list[int]]:
    return {name: part.column("id").to_pylist() for name, part in split_by_partition(table, columns)}


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("plain", "plain"),
        ("a b", "a b"),
        ("50%", "50%25"),
        ("a=b:c/d", "a%3Db%3Ac%2Fd"),
        ("日本 é😀", "日本 é😀"),
        ("\n\x7f", "%0A%7F"),
        ("{[]}^?*#'\"\\", "%7B%5B%5D}%5E%3F%2A%23%27%22%5C"),
        ("a+b,c;d&e", "a+b,c;d&e"),
        ("..", ".."),
    ],
)
def test_what_spark_escapes_is_escaped(value: str, escaped: str):
    assert escape(value) == escaped


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, pa.bool_(), "true"),
        (-3, pa.int8(), "-3"),
        (2**63, pa.uint64(), str(2**63)),
        (0.1, pa.float32(), "0.1"),
        (0.1, pa.float64(), "0.1"),
        (1.0, pa.float32(), "1.0"),
        (1e7, pa.float64(), "1.0E7"),
        (1e-4, pa.float32(), "1.0E-4"),
        (-0.0, pa.float64(), "-0.0"),
        (None, pa.float64(), None),
        (1e10, pa.dictionary(pa.int8(), pa.float32()), "1.0E10"),
        (decimal.Decimal("1E-8"), pa.decimal128(10, 8), "1E-8"),
        (float("nan"), pa.float64(), "NaN"),
        (float("-inf"), pa.float64(), "-Infinity"),
        (decimal.Decimal("1E+3"), pa.decimal128(10, 2), "1000.00"),
        (datetime.date(2020, 1, 31), pa.date32(), "2020-01-31"),
        (datetime.datetime(2020, 1, 31), pa.timestamp("us"), "2020-01-31 00:00:00"),
        (datetime.datetime(2020, 1, 31, 1, 2, 3, 120000), pa.timestamp("us"), "2020-01-31 01:02:03.12"),
        (
            datetime.datetime(2020, 1, 31, tzinfo=ZONE),
            pa.timestamp("ns", "+02:00"),
            "2020-01-31 00:00:00",
        ),
        ("x", pa.large_string(), "x"),
        ("x", pa.dictionary(pa.int32(), pa.string()), "x"),
        (None, pa.null(), None),
        (None, pa.timestamp("s"), None),
    ],
)
def test_values_are_written_as_spark_casts_them(value: object, kind: pa.DataType, text: str | None):
    assert is_partition_type(kind)
    table = pa.table({"id": [0], "p": pa.array([value], kind)})
    assert list(split(table, "p")) == [partition_name("p", text)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int8()), pa.time32("s"), pa.float16()])
def test_types_without_a_name_are_refused(kind: pa.DataType):
    assert not is_partition_type(kind)
    if not pa.types.is_floating(kind):
        with pytest.raises(ValueError, match="partition column 'p'"):
            partition_texts("p", pa.array([], kind))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s")])
def test_a_year_that_has_no_name_here_is_refused(kind: pa.DataType):
    days = 3_000_000 * (1 if pa.types.is_date(kind) else 86_400)
    with pytest.raises(ValueError, match="column 'p': has a year outside of 1 to 9999"):
        partition_texts("p", pa.array([days], kind))


def test_of_the_directories_that_can_have_one_value_one_is_chosen():
    table = pa.table({"id": [0, 1, 2], "a": [2e23, 1.0, 2e23], "b": [decimal.Decimal("1E-7")] * 3})
    asked = []

    def last(directories: tuple[str, ...]) -> str:
        asked.append(directories)
        return directories[-1]

    found = dict(split_by_partition(table, ["a", "b"], last))
    assert set(found) == {"a=2.0E23/b=0.0000001", "a=1.0/b=0.0000001"}
    assert ("a=1.9999999999999998E23", "a=2.0E23") in asked
    assert ("a=1.0/b=1E-7", "a=1.0/b=0.0000001") in asked
    assert set(split(table, "a", "b")) == {"a=1.9999999999999998E23/b=1E-7", "a=1.0/b=1E-7"}


def test_every_row_goes_to_one_directory_and_keeps_its_order():
    table = pa.table({"id": range(8), "a": ["x", "y"] * 4, "b": [None, 1, 2, 1, None, 1, 2, None]})
    assert split(table, "b", "a") == {
        "b=__HIVE_DEFAULT_PARTITION__/a=x": [0, 4],
        "b=__HIVE_DEFAULT_PARTITION__/a=y": [7],
        "b=1/a=y": [1, 3, 5],
        "b=2/a=x": [2, 6],
    }
    parts = dict(split_by_partition(table, ["b", "a"]))
    assert {tuple(part.column_names) for part in parts.values()} == {("id",)}


def test_null_and_the_empty_string_have_one_directory_as_in_spark():
    table = pa.table({"id": [0, 1, 2], "p": ["", None, " "]})
    assert split(table, "p") == {"p=__HIVE_DEFAULT_PARTITION__": [0, 1], "p= ": [2]}


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.null()])
def test_values_in_several_chunks_have_one_directory_each(kind: pa.DataType):
    values = [None, None] if pa.types.is_null(kind) else ["x", None]
    chunks = [pa.array(values, kind), pa.array(values[::-1], kind)]
    found = split(pa.table({"id": range(4), "p": pa.chunked_array(chunks)}), "p")
    null = "p=__HIVE_DEFAULT_PARTITION__"
    assert found == ({null: [0, 1, 2, 3]} if values == [None, None] else {"p=x": [0, 3], null: [1, 2]})


def test_many_partitions_in_many_chunks_lose_nothing():
    chunks = [
        pa.table({"id": range(n, n + 700), "p": [i % 90 for i in range(n, n + 700)]}) for n in (0, 700)
    ]
    found = split(pa.concat_tables(chunks), "p")
    assert found == {f"p={p}": list(range(p, 1400, 90)) for p in range(90)}


def test_the_names_of_columns_are_escaped_too():
    table = pa.table({"id": [1], "a=b": ["c"]})
    assert split(table, "a=b") == {"a%3Db=c": [1]}


def test_without_columns_there_is_one_directory_and_without_rows_none():
    table = pa.table({"id": [1, 2]})
    assert split(table) == {"": [1, 2]}
    assert split(table.slice(0, 0)) == {}
    assert split(table.slice(0, 0), "id") == {}
