"""Exports to Delta: the same rows as the table, each version once, whatever happens in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from msgspec import structs

import ray_committer
from ray_committer.errors import ExportError
from ray_committer.interop.exports import delta_table
from ray_committer.interop.exports.delta import read_cursor
from ray_committer.limits import waiting
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.scan_table import scan_table
from ray_committer.tables.append import append
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, crash_at
from tests.interop.exports.tables import commit, export, new_table, rows_of, snapshot_rows
from tests.tables.support import append_commit, claim_of, commit_of
from tests.threads import at_once
from tests.tiers import RANGE

FIRST = {"day=1/a.parquet": [1, 2], "day=2/b.parquet": [3]}
STORE = LocalStore(StoreSpec("file"))
STRIDES = pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.wide)])
"""`make test` tries a fifth of the requests."""


@pytest.fixture
def table(dest: Path) -> str:
    found = new_table(dest)
    commit(found, FIRST)
    return found


def delta_rows(dest: str) -> list[str]:
    return rows_of(DeltaTable(dest).to_pyarrow_table())


def transactions(dest: str) -> list[int]:
    """The versions of the table that the versions of the Delta table say they are, in order."""
    found = []
    for path in sorted(Path(dest, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        found += [action["txn"]["version"] for action in actions if "txn" in action]
    return found


def committed(dest: str) -> list[int]:
    return [one.version for one in ray_committer.changes(dest)]


def check(dest: str) -> None:
    """The Delta table has the rows of the table, and each version since the first export once."""
    assert delta_rows(dest) == snapshot_rows(dest)
    first, *later = transactions(dest)
    assert later == [version for version in committed(dest) if version > first]


def test_a_first_export_has_all_files_and_a_later_one_each_version(table: str):
    commit(table, {"day=2/c.parquet": [4]})
    done = export(table)
    assert (done.version, done.versions, done.added, done.removed) == (6, 1, 3, 0)
    check(table)
    commit(table, {"day=2/d.parquet": [5]}, "overwrite_partitions")
    commit(table, {"day=3/e.parquet": [6], "day=3/_hidden.parquet": [0]})
    done = export(table)
    assert (done.version, done.versions, done.added, done.removed) == (11, 2, 2, 2)
    check(table)
    assert transactions(table) == [6, 8, 11]
    assert len(DeltaTable(table, version=0).file_uris()) == 3


def test_an_export_of_nothing_new_changes_nothing(table: str):
    export(table)
    before = {path: path.stat().st_mtime_ns for path in Path(table).rglob("*")}
    done = export(table)
    assert (done.version, done.versions) == (4, 0)
    assert {path: path.stat().st_mtime_ns for path in Path(table).rglob("*")} == before


def test_an_old_file_whose_name_a_new_one_takes_is_replaced(table: str):
    export(table)
    commit(table, {"day=1/a.parquet": [7, 8, 9]}, "overwrite")
    export(table)
    check(table)
    assert len(delta_rows(table)) == 3


def test_a_lost_cursor_exports_nothing_twice(table: str):
    export(table)
    commit(table, {"day=1/c.parquet": [4]})
    export(table)
    Path(TablePlaces(table).delta_cursor).unlink()
    assert export(table).versions == 0
    cursor = read_cursor(STORE, TablePlaces(table))
    assert cursor is not None
    assert (cursor.version, cursor.target_version) == (6, 1)
    check(table)


def test_a_delta_table_that_was_removed_is_made_again(table: str):
    export(table)
    commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
    for path in Path(table, "_delta_log").iterdir():
        path.unlink()
    Path(table, "_delta_log").rmdir()
    assert export(table).versions == 1
    check(table)


@pytest.mark.parametrize(
    ("declared", "names", "expected"),
    [
        ("", ["1", "-2", "__HIVE_DEFAULT_PARTITION__"], [1, -2, None]),
        ("", ["01", "3000000000"], [1, 3_000_000_000]),
        ("", ["1", "2.5"], [1.0, 2.5]),
        ("", ["2024-01-31", "2024-02-01"], ["2024-01-31", "2024-02-01"]),
        ("", ["2024-01-31", "2024-02-31"], ["2024-01-31", "2024-02-31"]),
        ("", ["2024-01-31 10%3A30%3A00", "2024-02-01"], ["2024-01-31 10:30:00", "2024-02-01 00:00:00"]),
        ("", ["a%3Ab c", "%C3%BC", "ü+%25"], ["a:b c", "ü", "ü+%"]),
        ("string", ["01", "1"], ["01", "1"]),
        ("bigint", ["1"], [1]),
        ("boolean", ["true", "FALSE"], [True, False]),
        ("decimal(5,2)", ["1.50"], ["1.50"]),
    ],
)
def test_partition_values_have_the_declared_type_or_the_one_that_spark_takes(
    dest: Path, declared: str, names: list[str], expected: list[Any]
):
    table = new_table(dest / "ü b#?", {"p": declared} if declared else {})
    commit(table, {f"p={name}/ü a%.parquet": [at] for at, name in enumerate(names)})
    export(table)
    rows = DeltaTable(table).to_pyarrow_table().sort_by("x").to_pylist()
    assert [(row["x"], row["p"] if row["p"] in expected else str(row["p"])) for row in rows] == list(
        enumerate(expected)
    )


def test_columns_of_files_have_the_types_that_spark_gives_them(dest: Path):
    table = new_table(dest)
    columns = {
        "u": pa.array([255], pa.uint8()),
        "v": pa.array([2**64 - 1], pa.uint64()),
        "t": pa.array([1], pa.timestamp("us", "Europe/Berlin")),
        "n": pa.array([1], pa.timestamp("ms")),
        "d": pa.array(["a"]).dictionary_encode(),
        "l": pa.array([[1]], pa.large_list(pa.int16())),
        "s": pa.array([{"a": 1, "b": b"x"}]),
        "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float32())),
    }
    commit(table, {"a.parquet": pa.table(columns)})
    export(table)
    found = {one.name: json.loads(one.type.to_json()) for one in DeltaTable(table).schema().fields}
    assert [found[name] for name in "uvtnd"] == [
        "short",
        "decimal(20,0)",
        "timestamp",
        "timestamp_ntz",
        "string",
    ]
    assert found["l"]["elementType"] == "short"
    assert [one["type"] for one in found["s"]["fields"]] == ["long", "binary"]
    assert (found["m"]["keyType"], found["m"]["valueType"]) == ("string", "float")
    (row,) = DeltaTable(table).to_pyarrow_table(columns=["u", "d", "l"]).to_pylist()
    assert row == {"u": 255, "d": "a", "l": [1]}


def test_timestamps_of_96_bits_are_instants(dest: Path):
    table = new_table(dest)
    path = Path(table, "a.parquet")
    values = pa.array([0], pa.timestamp("ns"))
    pq.write_table(pa.table({"t": values}), path, use_deprecated_int96_timestamps=True)
    scan_table(table, import_foreign=True)
    export(table)
    assert DeltaTable(table).schema().fields[0].type == PrimitiveType("timestamp")


def test_an_export_of_10_000_files_reads_one_footer(dest: Path):
    """The other files are not there at all."""
    table, places = new_table(dest, {"k": "int"}), TablePlaces(str(dest))
    commit(table, {"k=0/0.parquet": [1]})
    size = Path(table, "k=0/0.parquet").stat().st_size
    files = [ListedFile(f"k={at % 100}/part-{at:05}.snappy.parquet", size, 1) for at in range(10_000)]
    append_commit(STORE, "many", files, table=places, partitions=[""])
    assert export(table).added == 10_001
    assert len(DeltaTable(table).file_uris()) == 10_001


def declared_int(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    export(str(table))
    commit(str(table), {"k=x/a.parquet": [1]})


def no_partition(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1], "b.parquet": [1]})


def new_column(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    export(str(table))
    commit(str(table), {"k=1/b.parquet": pa.table({"x": [1], "y": ["new"]})})


def new_type(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    export(str(table))
    commit(str(table), {"k=1/b.parquet": ["text"]})


def unknown_type(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": pa.table({"t": pa.array([1], pa.time64("us"))})})


def not_parquet(table: Path) -> None:
    commit(str(table), {"k=1/a.csv": [1]})


def no_parquet_inside(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    Path(table, "k=1/a.parquet").write_text("text")


def of_another_program(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    DeltaTable.create(str(table), Schema.from_arrow(pa.schema([("x", pa.int64())])))


def changed_by_another_program(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1], "k=1/b.parquet": [2]})
    export(str(table))
    DeltaTable(str(table)).delete("x = 1")


def gone(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    Path(table, "k=1/a.parquet").unlink()


def gone_later(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    export(str(table))
    commit(str(table), {"k=1/b.parquet": [1]})
    Path(table, "k=1/b.parquet").unlink()


def damaged(table: Path) -> None:
    commit(str(table), {"k=1/a.parquet": [1]})
    export(str(table))
    Path(table, "_delta_log/00000000000000000000.json").write_text("{")


def empty(table: Path) -> None:
    pass


BAD = {
    declared_int: "k=x/a.parquet: partition column 'k' has type int32, and 'x' is not such a value; ",
    no_partition: r"b.parquet: is in a directory with no partition columns, but .* have the .* column",
    new_column: "k=1/b.parquet: column 'y' has the type string, but the exported table has no such",
    new_type: "k=1/b.parquet: column 'x' has the type string, but the exported table has the type int64",
    unknown_type: r"k=1/a.parquet: column 't' has the type time64\[us\], which Delta",
    not_parquet: "k=1/a.csv: is not a Parquet file by its name, and Delta tables have no other files; ",
    no_parquet_inside: "k=1/a.parquet: cannot be read as a Parquet file",
    of_another_program: "/_delta_log: is of a Delta table that this package has not made for this",
    changed_by_another_program: "00000000000000000001.json: another program has changed the files",
    gone: "k=1/a.parquet: is gone, although the log of the table names it; the table itself is",
    gone_later: "k=1/b.parquet: is gone, although the log of the table names it; the table itself is",
    damaged: "the Delta table could not be read or written",
    empty: "has no files yet, so the columns of the table are not known; ",
}


@pytest.mark.parametrize("prepare", BAD, ids=lambda one: one.__name__)
def test_what_cannot_be_exported_is_one_error_and_changes_nothing(
    dest: Path, prepare: Callable[[Path], None]
):
    table = new_table(dest)
    prepare(dest)
    before = {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    with pytest.raises(ExportError, match=BAD[prepare]) as caught:
        export(table)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("declared", [{}, {"day": "int"}])
def test_a_value_that_does_not_fit_is_exported_as_the_error_advises(
    dest: Path, declared: dict[str, str]
):
    table = new_table(dest, declared)
    commit(table, FIRST)
    export(table)
    commit(table, {"day=x/c.parquet": [4]})
    with pytest.raises(ExportError, match="drop this partition; then remove the exported table and run"):
        export(table)
    if declared:
        ray_committer.drop_partition(table, ["day=x"], executor="inline")
    rmtree(dest / "_delta_log")
    export(table)
    check(table)


def test_a_column_that_is_added_to_the_delta_table_lets_the_export_go_on(table: str):
    export(table)
    commit(table, {"day=1/c.parquet": pa.table({"x": [4], "y": ["new"]})})
    with pytest.raises(ExportError, match="column 'y'"):
        export(table)
    DeltaTable(table).alter.add_columns([Field("y", "string")])
    export(table)
    assert transactions(table) == [4, 6]
    assert '{"day": 1, "x": 4, "y": "new"}' in delta_rows(table)


def test_a_percent_sign_in_the_name_of_the_directory_is_refused(tmp_path: Path):
    table = new_table(tmp_path / "a%20b")
    commit(table, FIRST)
    with pytest.raises(ExportError, match="cannot use a directory with a percent sign"):
        export(table)


@pytest.mark.slow
@STRIDES
def test_an_export_that_dies_at_any_request_is_finished_by_the_next_one(dest: Path, stride: int):
    for number in range(1 + RANGE % stride, 200, stride):
        table = new_table(dest / str(number))
        commit(table, FIRST)
        with_crash = WrappedStore(STORE, before=crash_at(number))
        try:
            export(table, with_crash)
            commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
            export(table, with_crash)
        except SimulatedCrash:
            commit(table, {"day=5/c.parquet": [4]})
            export(table)
            check(table)
        else:
            assert number > 20
            return
    raise AssertionError("an export makes too many requests")


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("write", ["create_table_with_add_actions", "create_write_transaction"])
def test_an_export_that_dies_at_a_version_of_delta_is_finished(
    table: str, monkeypatch: pytest.MonkeyPatch, write: str, fate: str
):
    owner: Any = delta_table if write.startswith("create_table") else DeltaTable
    if owner is DeltaTable:
        export(table)
        commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
        commit(table, {"day=1/d.parquet": [5]})
    real = getattr(owner, write)

    def dies(*arguments: Any, **named: Any) -> None:
        if fate == "after":
            real(*arguments, **named)
        raise SimulatedCrash(StoreCall(write, (), 1))

    with monkeypatch.context() as patch:
        patch.setattr(owner, write, dies)
        with pytest.raises(SimulatedCrash):
            export(table)
    export(table)
    check(table)


def test_exports_at_the_same_time_export_each_version_once(table: str):
    """Four exporters, of which none waits for another one, beside the commits that they export."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            export(table)

    def commits() -> None:
        for number in range(5):
            mode = "overwrite_partitions" if number % 2 else "append"
            commit(table, {f"day={number % 3}/{number}.parquet": [number]}, mode)
        ended.set()

    at_once([commits, run, run, run, run])
    export(table)
    check(table)


def test_a_version_that_another_process_has_written_meanwhile_is_read_first(
    table: str, monkeypatch: pytest.MonkeyPatch
):
    """Whatever a process has read before, the other one is faster."""
    export(table)
    commit(table, {"day=1/c.parquet": [4]})
    real, at = DeltaTable.create_write_transaction, iter(range(3))

    def late(self: DeltaTable, *arguments: Any, **named: Any) -> None:
        if next(at, None) == 0:
            export(table)
            commit(table, {"day=1/d.parquet": [5]})
        real(self, *arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    export(table)
    check(table)
    assert transactions(table) == [4, 6, 8]


def test_a_version_that_another_process_has_written_just_after_is_not_written_again(
    table: str, monkeypatch: pytest.MonkeyPatch
):
    """The library's table is then at the version of the other one, to which anything can be appended."""
    export(table)
    commit(table, {"day=1/c.parquet": [4]})
    commit(table, {"day=1/d.parquet": [5]})
    commit(table, {"day=1/e.parquet": [6]}, "overwrite_partitions")
    real, at = DeltaTable.create_write_transaction, iter(range(3))

    def early(self: DeltaTable, *arguments: Any, **named: Any) -> None:
        is_first = next(at, None) == 0
        real(self, *arguments, **named)
        if is_first:
            export(table)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", early)
    export(table)
    assert transactions(table) == [4, 6, 8, 10]
    check(table)


def test_a_version_of_another_program_just_after_ours_is_an_error(
    table: str, monkeypatch: pytest.MonkeyPatch
):
    export(table)
    commit(table, {"day=1/c.parquet": [4]})
    real = DeltaTable.create_write_transaction
    foreign = pa.table({"x": [7], "day": pa.array([1], pa.int32())})

    def early(self: DeltaTable, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        write_deltalake(table, foreign, mode="append")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", early)
    with pytest.raises(ExportError, match=r"00000000000000000002.json: another program has changed"):
        export(table)


def test_a_write_that_never_succeeds_is_an_error(table: str, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: Any, **__: Any) -> None:
        raise delta_table.CommitFailedError("refused")

    export(table)
    commit(table, {"day=1/c.parquet": [4]})
    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails)
    monkeypatch.setattr(waiting, "OTHERS", waiting.Pauses(0.0, 0.0))
    with pytest.raises(ExportError, match=r"cannot be exported beside other programs \(refused\)"):
        export(table)


def test_a_job_whose_claim_is_before_the_last_export_is_exported(table: str):
    """A commit can be far behind its claim, which names its files."""
    places = TablePlaces(table)
    Path(table, "day=1/late.parquet").write_bytes(Path(table, "day=1/a.parquet").read_bytes())
    status = STORE.get_status(f"{table}/day=1/late.parquet")
    assert status is not None
    late = ListedFile("day=1/late.parquet", status.size, status.modified_milliseconds)
    claim = append(STORE, places, claim_of("late", [late]), 0)
    export(table)
    append(STORE, places, structs.replace(commit_of(claim), job_id="late"), claim)
    export(table)
    check(table)
    assert len(delta_rows(table)) == 5


def test_a_whole_table_that_is_replaced_keeps_its_delta_log(table: str):
    export(table)
    commit(table, {"day=9/z.parquet": [9]}, "overwrite")
    assert len(list(Path(table, "_delta_log").iterdir())) == 1
    export(table)
    check(table)
    found = scan_table(table)
    assert found.agrees


def test_a_destination_without_a_log_is_replaced_with_its_delta_log(dest: Path):
    """It belongs to nobody there."""
    dest.mkdir()
    pq.write_table(pa.table({"x": [1]}), dest / "a.parquet")
    DeltaTable.create(str(dest), Schema.from_arrow(pa.schema([("x", pa.int64())])))
    commit(str(dest), {"b.parquet": [2]}, "overwrite")
    assert not list(dest.glob("_delta_log/*"))
