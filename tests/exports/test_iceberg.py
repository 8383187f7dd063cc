"""Exports to Iceberg: the same rows as the table, each version one snapshot, with partition values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable
from pyiceberg.table.update import snapshot as update

import ray_committer
from ray_committer.errors import ExportError
from ray_committer.exports.cursor import read_cursor
from ray_committer.exports.iceberg_table import VERSION, open_iceberg
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, crash_at
from tests.exports.tables import commit, export, new_table, rows_of, snapshot_rows
from tests.tiers import RANGE

FIRST = {"day=1/a.parquet": [1, 2], "day=2/b.parquet": [3]}
STORE = LocalStore(StoreSpec("file"))
STRIDES = pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.wide)])
"""`make test` tries a ninth of the requests."""


@pytest.fixture
def table(dest: Path) -> str:
    found = new_table(dest)
    commit(found, FIRST)
    return found


def iceberg(dest: str) -> StaticTable:
    """The last version, as a reader without a catalog finds it."""
    metadata = Path(dest, "_iceberg/metadata")
    version = int((metadata / "version-hint.text").read_text())
    assert not (metadata / f"v{version + 1}.metadata.json").exists()
    return StaticTable.from_metadata(str(metadata / f"v{version}.metadata.json"))


def versions(dest: str) -> list[int]:
    """The versions of the table that the snapshots say they are, in order."""
    snapshots = iceberg(dest).snapshots()
    ids = [one.snapshot_id for one in snapshots]
    assert [one.parent_snapshot_id for one in snapshots] == [None, *ids[:-1]]
    return [int(one.summary[VERSION]) for one in snapshots if one.summary]


def check(dest: str) -> None:
    """The Iceberg table has the rows of the table, and each version since the first export once."""
    found = iceberg(dest).scan().to_arrow()
    assert rows_of(found) == snapshot_rows(dest)
    assert iceberg(dest).scan().count() == found.num_rows
    first, *later = versions(dest)
    assert later == [one.version for one in ray_committer.changes(dest) if one.version > first]


def test_a_first_export_has_all_files_and_a_later_one_each_version(table: str):
    done = export(table, "iceberg")
    assert (done.version, done.versions, done.added, done.removed) == (4, 1, 2, 0)
    check(table)
    commit(table, {"day=2/d.parquet": [5]}, "overwrite_partitions")
    commit(table, {"day=3/e.parquet": [6], "day=3/_hidden.parquet": [0]})
    done = export(table, "iceberg")
    assert (done.version, done.versions, done.added, done.removed) == (9, 2, 2, 1)
    check(table)
    assert versions(table) == [4, 6, 9]
    before = {path: path.stat().st_mtime_ns for path in Path(table).rglob("*")}
    assert export(table, "iceberg").versions == 0
    assert {path: path.stat().st_mtime_ns for path in Path(table).rglob("*")} == before


def test_an_old_file_whose_name_a_new_one_takes_is_replaced(table: str):
    export(table, "iceberg")
    commit(table, {"day=1/a.parquet": [7, 8, 9]}, "overwrite")
    export(table, "iceberg")
    check(table)


def test_a_compaction_and_a_dropped_partition(table: str):
    export(table, "iceberg")
    commit(table, {"day=1/c.parquet": [4]})
    assert ray_committer.compact(table, executor="inline") is not None
    export(table, "iceberg")
    check(table)
    ray_committer.drop_partition(table, ["day=1", "day=2"], executor="inline")
    export(table, "iceberg")
    check(table)


def test_a_version_whose_files_were_deleted_later_has_none_of_them(table: str):
    export(table, "iceberg")
    commit(table, {"day=1/c.parquet": [4]})
    commit(table, {"day=1/d.parquet": [5]}, "overwrite_partitions")
    export(table, "iceberg")
    assert len(versions(table)) == 3
    check(table)


@pytest.mark.parametrize(
    ("declared", "names", "expected"),
    [
        ("", ["1", "-2", "__HIVE_DEFAULT_PARTITION__"], [1, -2, None]),
        ("", ["01", "3000000000"], [1, 3_000_000_000]),
        ("", ["1", "2.5"], [1.0, 2.5]),
        ("", ["2024-01-31", "2024-02-01"], ["2024-01-31", "2024-02-01"]),
        ("", ["2024-01-31 10%3A30%3A00"], ["2024-01-31 10:30:00"]),
        ("", ["a%3Ab c", "%C3%BC", "ü+%25#?"], ["a:b c", "ü", "ü+%#?"]),
        ("string", ["01", "1"], ["01", "1"]),
        ("boolean", ["true", "FALSE"], [True, False]),
        ("decimal(5,2)", ["1.50"], ["1.50"]),
        ("smallint", ["7"], [7]),
    ],
)
def test_partition_values_have_the_declared_type_or_the_one_that_spark_takes(
    dest: Path, declared: str, names: list[str], expected: list[Any]
):
    table = new_table(dest / "ü b#?", {"p": declared} if declared else {})
    commit(table, {f"p={name}/ü a%.parquet": [at] for at, name in enumerate(names)})
    export(table, "iceberg")
    rows = iceberg(table).scan().to_arrow().sort_by("x").to_pylist()
    found = [row["p"] if row["p"] in expected else str(row["p"]) for row in rows]
    assert found == expected
    if isinstance(expected[0], int):
        assert iceberg(table).scan(EqualTo("p", expected[0])).to_arrow()["x"].to_pylist() == [0]


def test_columns_keep_their_types(dest: Path):
    table = new_table(dest)
    columns = {
        "b": pa.array([255], pa.uint8()),
        "t": pa.array([1], pa.timestamp("us", "UTC")),
        "n": pa.array([1], pa.timestamp("us")),
        "l": pa.array([[1]], pa.large_list(pa.int64())),
        "s": pa.array([{"a": 1, "b": b"x"}]),
        "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
    }
    commit(table, {"a.parquet": pa.table(columns)})
    export(table, "iceberg")
    types = {one.name: str(one.field_type) for one in iceberg(table).schema().fields}
    assert [types[name] for name in "btnl"] == ["int", "timestamptz", "timestamp", "list<long>"]
    (row,) = iceberg(table).scan().to_arrow().to_pylist()
    assert (row["l"], row["s"], dict(row["m"])) == ([1], {"a": 1, "b": b"x"}, {"k": 1.5})
    commit(table, {"b.parquet": pa.table(columns)})
    export(table, "iceberg")
    assert iceberg(table).scan().count() == 2


def new_column(table: Path) -> None:
    export(str(table), "iceberg")
    commit(str(table), {"day=1/c.parquet": pa.table({"x": [1], "y": ["new"]})})


def no_value(table: Path) -> None:
    export(str(table), "iceberg")
    commit(str(table), {"day=x/c.parquet": [1]})


def not_parquet(table: Path) -> None:
    commit(str(table), {"day=1/c.csv": [1]})


def gone(table: Path) -> None:
    Path(table, "day=2/b.parquet").unlink()


def of_another_table(table: Path) -> None:
    other = new_table(table.parent / "other")
    commit(other, FIRST)
    export(other, "iceberg")
    Path(other, "_iceberg").rename(table / "_iceberg")


def changed_by_another_program(table: Path) -> None:
    export(str(table), "iceberg")
    opened = open_iceberg(STORE, TablePlaces(str(table)))
    assert opened is not None
    opened._table.append(pa.table({"x": [1], "day": pa.array([1], pa.int32())}))


def damaged(table: Path) -> None:
    export(str(table), "iceberg")
    Path(table, "_iceberg/metadata/v2.metadata.json").write_text("{")


BAD = {
    new_column: "day=1/c.parquet: column 'y' has the type string, but the exported table has no such",
    no_value: "day=x/c.parquet: partition column 'day' has type int32, and 'x' is not such a value",
    not_parquet: "day=1/c.csv: is not a Parquet file by its name, and Iceberg tables have no",
    of_another_table: "/_iceberg: is an Iceberg table that this package has not made for this",
    changed_by_another_program: "/_iceberg: another program has written to this Iceberg table; nothing",
    damaged: "v2.metadata.json: cannot be read as the metadata of an Iceberg table",
    gone: "day=2/b.parquet: is gone, although the log of the table names it; the table itself is",
}


@pytest.mark.parametrize("prepare", BAD, ids=lambda one: one.__name__)
def test_what_cannot_be_exported_is_one_error_and_adds_no_snapshot(
    table: str, prepare: Callable[[Path], None]
):
    prepare(Path(table))
    before = {path.name for path in Path(table).rglob("v*.json")}
    with pytest.raises(ExportError, match=BAD[prepare]):
        export(table, "iceberg")
    if prepare is not gone:  # its table is made before the footers are read
        assert {path.name for path in Path(table).rglob("v*.json")} == before


@pytest.mark.slow
@STRIDES
@pytest.mark.parametrize("fate", ["before", pytest.param("after", marks=pytest.mark.wide)])
def test_an_export_that_dies_at_any_request_is_finished_by_the_next_one(
    dest: Path, fate: str, stride: int
):
    for number in range(1 + RANGE % stride, 200, stride):
        table = new_table(dest / str(number))
        commit(table, FIRST)
        with_crash = WrappedStore(STORE, **{fate: crash_at(number)})
        try:
            export(table, "iceberg", with_crash)
            commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
            export(table, "iceberg", with_crash)
        except SimulatedCrash:
            commit(table, {"day=5/c.parquet": [4]})
            export(table, "iceberg")
            check(table)
        else:
            assert number > 30
            return
    raise AssertionError("an export makes too many requests")


@pytest.mark.slow
@STRIDES
def test_an_export_that_is_passed_at_any_request_exports_each_version_once(dest: Path, stride: int):
    for number in range(1 + RANGE % stride, 200, stride):
        table = new_table(dest / str(number))
        commit(table, FIRST)
        did: list[StoreCall] = []

        def passes(call: StoreCall, table=table, number=number, did=did) -> None:
            if call.number == number:
                did.append(call)
                commit(table, {"day=1/d.parquet": [5]}, "overwrite_partitions")
                export(table, "iceberg")

        export(table, "iceberg", WrappedStore(STORE, before=passes))
        export(table, "iceberg")
        check(table)
        if not did:
            assert number > 20
            return
    raise AssertionError("an export makes too many requests")


@pytest.mark.parametrize("fate", ["dies", "is slow"])
def test_the_hint_names_the_last_version_after_a_process_that(table: str, fate: str):
    export(table, "iceberg")
    commit(table, {"day=1/c.parquet": [4]})
    did: list[StoreCall] = []

    def at_hint(call: StoreCall) -> None:
        if call.operation == "replace" and call.paths[-1].endswith("version-hint.text") and not did:
            did.append(call)
            if fate == "dies":
                raise SimulatedCrash(call)
            commit(table, {"day=1/d.parquet": [5]})
            export(table, "iceberg")

    with suppress(SimulatedCrash):
        export(table, "iceberg", WrappedStore(STORE, before=at_hint))
    if fate == "dies":
        assert export(table, "iceberg").versions == 0
    assert did
    check(table)


def test_a_file_that_the_library_misses_by_chance_is_looked_for_again(
    table: str, monkeypatch: pytest.MonkeyPatch
):
    """Its threads share the state of one filter of manifests."""
    export(table, "iceberg")
    commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
    real, at = update._OverwriteFiles._deleted_entries, iter(range(9))

    def misses(self: Any) -> Any:
        self._validate_required_deletes([] if next(at) == 0 else real(self))
        return real(self)

    monkeypatch.setattr(update._OverwriteFiles, "_deleted_entries", misses)
    export(table, "iceberg")
    check(table)


def test_exports_at_the_same_time_export_each_version_once(table: str):
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            while not ended.is_set():
                export(table, "iceberg")
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(4):
        mode = "overwrite_partitions" if number % 2 else "append"
        commit(table, {f"day={number % 3}/{number}.parquet": [number]}, mode)
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures
    export(table, "iceberg")
    check(table)


def test_a_lost_cursor_exports_nothing_twice(table: str):
    export(table, "iceberg")
    Path(TablePlaces(table).export("iceberg")).unlink()
    assert export(table, "iceberg").versions == 0
    cursor = read_cursor(STORE, TablePlaces(table), "iceberg")
    assert cursor is not None
    assert cursor.version == 4


def test_a_whole_table_that_is_replaced_keeps_its_iceberg_table(table: str):
    export(table, "iceberg")
    commit(table, {"day=9/z.parquet": [9]}, "overwrite")
    export(table, "iceberg")
    check(table)
    assert ray_committer.scan_table(table).agrees


def test_a_lost_file_is_named_beside_one_that_a_later_job_has_removed(table: str):
    export(table, "iceberg")
    commit(table, {"day=5/a.parquet": [1], "day=6/b.parquet": [2]})
    commit(table, {"day=5/c.parquet": [3]}, "overwrite_partitions")
    Path(table, "day=6/b.parquet").unlink()
    with pytest.raises(ExportError, match=r"day=6/b\.parquet: is gone"):
        export(table, "iceberg")
