"""Values come back as they were; what a database would change, or has no room for, is refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from ray_committer.errors import TableColumnsError
from ray_committer.records.columns import convert
from ray_committer.records.commit import commit_job
from ray_committer.records.job import start_job
from ray_committer.records.postgresql import Postgresql
from ray_committer.records.sqlite import Sqlite
from ray_committer.records.task import write_attempt
from tests.records.places import Place, open_job

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.alternate]

UTC = datetime.UTC
AT = datetime.datetime(2024, 2, 29, 12, 30, 15, 120003)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, None]),
    "uint8": (pa.uint8(), [255, None]),
    "int16": (pa.int16(), [-(2**15), None]),
    "uint16": (pa.uint16(), [2**16 - 1, None]),
    "int32": (pa.int32(), [-(2**31), None]),
    "uint32": (pa.uint32(), [2**32 - 1, None]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float32": (pa.float32(), [1.5, None]),
    "float64": (pa.float64(), [1e300, None]),
    "bool": (pa.bool_(), [True, None]),
    "string": (pa.string(), ["日本 é 😀\"'\\", ""]),
    "large_string": (pa.large_string(), ["a", None]),
    "words": (pa.dictionary(pa.int32(), pa.string()), ["a", None]),
    "binary": (pa.binary(), [b"\0\xff", None]),
    "fixed": (pa.binary(2), [b"ab", None]),
    "date": (pa.date32(), [datetime.date(2024, 2, 29), None]),
    "date64": (pa.date64(), [datetime.date(1, 1, 1), None]),
    "naive": (pa.timestamp("us"), [AT, None]),
    "millis": (pa.timestamp("ms"), [AT.replace(microsecond=120000), None]),
    "nanos": (pa.timestamp("ns"), [AT, None]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [AT.replace(tzinfo=UTC), None]),
}
ONLY_POSTGRESQL: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uint64": (pa.uint64(), [2**64 - 1, None]),
    "decimal": (pa.decimal128(38, 10), [decimal.Decimal("-1234567890123456789.0123456789"), None]),
    "decimal256": (pa.decimal256(50, 0), [decimal.Decimal(10) ** 49, None]),
    "time": (pa.time64("us"), [datetime.time(1, 2, 3, 4), None]),
    "nan": (pa.float64(), [float("nan"), float("-inf")]),
}


def table_of(values: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(each, kind) for name, (kind, each) in values.items()})


@pytest.mark.parametrize("exists", [False, True])
def test_values_come_back_equal(place: Place, exists: bool):
    values = VALUES if place.kind == "sqlite" else {**VALUES, **ONLY_POSTGRESQL}
    table = table_of(values)
    for _ in range(2 if exists else 1):
        job = open_job(place, schema=table.schema)
        commit_job(job, [write_attempt(job, [table])])
    found = place.query("SELECT * FROM {t}")[-2:]
    for column, (name, (kind, expected)) in enumerate(values.items()):
        read = [row[column] for row in found]
        assert str([_as_read(each, place) for each in expected]) == str(read), (name, kind)


def _as_read(value: Any, place: Place) -> Any:
    """SQLite has booleans as integers, and times as text; ADBC reads numerics of PostgreSQL as text."""
    if place.kind == "postgresql":
        if isinstance(value, datetime.datetime) and value.tzinfo:
            return pa.scalar(value, pa.timestamp("us", "UTC")).as_py()
        is_numeric = isinstance(value, decimal.Decimal) or value == 2**64 - 1
        return format(value, "f" if isinstance(value, decimal.Decimal) else "d") if is_numeric else value
    if isinstance(value, datetime.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1]]), "for which the database has no type"),
        (pa.array([{"a": 1}]), "for which the database has no type"),
        (pa.array([1], pa.duration("s")), "for which the database has no type"),
    ],
)
def test_a_type_that_no_column_can_have_is_refused_before_a_task_runs(place: Place, column, words: str):
    schema = pa.schema([("id", pa.int64()), ("odd column", column.type)])
    with pytest.raises(TableColumnsError, match=f"column 'odd column' .*{words}"):
        start_job(place.url, place.table, schema=schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (pa.schema([("id", pa.int64()), ("more", pa.int64())]), "has no column 'more'"),
        (pa.schema([("id", pa.string())]), "column 'id' is .*, which does not hold every text"),
        (pa.schema([("id", pa.int64()), ("kind", pa.float64())]), "column 'kind' is"),
        (pa.schema([("kind", pa.string())]), "column 'id' of the table needs a value"),
        (pa.schema([("id", pa.int64()), ("id", pa.int64())]), "two columns 'id'"),
        (pa.schema([("id", pa.int64()), ("", pa.int64())]), "column '' is not a name"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_by_name_before_a_task_runs(
    place: Place, schema: pa.Schema, words: str
):
    place.query("CREATE TABLE {t} (id bigint NOT NULL, kind text, made bigint DEFAULT 5)")
    with pytest.raises(TableColumnsError, match=words) as caught:
        start_job(place.url, place.table, schema=schema)
    assert "Hidden" not in str(caught.value)
    assert place.staging() == []


def test_a_task_without_a_schema_names_the_column_as_well(place: Place):
    place.query("CREATE TABLE {t} (id bigint NOT NULL, kind text)")
    job = open_job(place)
    for table, words in (
        (pa.table({"id": [1], "more": [1]}), "no column 'more'"),
        (pa.table({"id": ["a"]}), "column 'id' is"),
        (pa.table({"id": pa.nulls(1)}), "no column has a type"),
    ):
        with pytest.raises(TableColumnsError, match=words):
            write_attempt(job, [table])
    place.query("DROP TABLE {t}")
    attempts = [write_attempt(job, [pa.table({"kind": each})]) for each in ([1], ["a"])]
    with pytest.raises(TableColumnsError, match=r"column 'kind' is [a-z]+ in one place"):
        commit_job(job, attempts)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pa.array([1_000_000_001], pa.timestamp("ns")), "cannot be timestamp|cannot be string"),
        (pa.array(["x"]), "cannot be int64|cannot be timestamp"),
    ],
)
def test_a_value_that_would_lose_something_fails_its_task(place: Place, value: pa.Array, words: str):
    kind = pa.timestamp("ns") if pa.types.is_timestamp(value.type) else pa.int64()
    job = open_job(place, schema=pa.schema([("a b", kind)]))
    with pytest.raises(TableColumnsError, match=f"column 'a b' ({words})"):
        write_attempt(job, [pa.table({"a b": value})])
    assert place.staging() == []


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()])
def test_a_time_that_has_no_text_is_refused(kind: pa.DataType):
    far = pa.array([2**31 - 1 if kind == pa.date32() else 2**63 - 1], kind)
    with pytest.raises(TableColumnsError, match="column 'at' has a time that is out of range"):
        convert(pa.table({"at": far}), Sqlite(), "t")


def test_sqlite_refuses_what_it_would_change():
    dialect = Sqlite()
    assert dialect.staged(pa.uint64()) is dialect.staged(pa.decimal128(5, 2)) is None
    nan = pa.table({"x": pa.chunked_array([pa.array([1.0, float("nan")])])})
    assert "column 'x' has NaN" in str(dialect.refuse_values(nan))
    assert dialect.refuse_values(pa.table({"x": [1.0, None]})) is None


@pytest.mark.parametrize(
    ("staged", "declared", "fits"),
    [
        ("smallint", "bigint", True),
        ("bigint", "integer", False),
        ("integer", "numeric(10,0)", True),
        ("integer", "numeric(10,1)", False),
        ("bigint", "numeric", True),
        ("bigint", "double precision", False),
        ("real", "double precision", True),
        ("double precision", "real", False),
        ("numeric(10,2)", "numeric(12,3)", True),
        ("numeric(10,2)", "numeric(10,3)", False),
        ("numeric(10,2)", "numeric(10,1)", False),
        ("text", "character varying(3)", True),
        ("text", "character(3)", False),
        ("text", "json", False),
        ("timestamp without time zone", "timestamp with time zone", False),
        ("timestamp without time zone", "timestamp(3) without time zone", False),
        ("timestamp with time zone", "timestamp with time zone", True),
        ("date", "timestamp without time zone", False),
    ],
)
def test_postgresql_takes_a_wider_type_only(staged: str, declared: str, fits: bool):
    assert Postgresql().fits(staged, declared) is fits


@pytest.mark.parametrize(
    ("staged", "declared", "fits"),
    [
        ("integer", "INT", True),
        ("integer", "BOOLEAN", True),
        ("integer", "REAL", False),
        ("integer", "TEXT", False),
        ("integer", "", True),
        ("real", "DOUBLE PRECISION", True),
        ("real", "INTEGER", False),
        ("real", "NUMERIC", False),
        ("text", "varchar(10)", True),
        ("text", "timestamp", False),
        ("text", "any", False),
        ("datetime text", "timestamp", True),
        ("datetime text", "datetime text", True),
        ("datetime text", "decimal(5,2)", False),
        ("text", "decimal(5,2)", False),
        ("text", "blob", True),
        ("blob", "text", False),
    ],
)
def test_sqlite_takes_an_affinity_that_changes_nothing(staged: str, declared: str, fits: bool):
    assert Sqlite().fits(staged, declared) is fits
