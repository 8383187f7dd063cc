"""Exports as symlink manifests: each partition has the files of the last version, and no others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ray_committer
from ray_committer.errors import ExportError
from ray_committer.exports.cursor import read_cursor
from ray_committer.exports.symlinks import FEW, export_symlinks
from ray_committer.exports.takeover import Turn
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_paths import SYMLINKS, TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at
from tests.exports.tables import commit, export, new_table
from tests.tables.support import DEFINITION, TABLE, append_commit, table_on
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


def manifests(dest: str) -> dict[str, list[str]]:
    """The files that each manifest names, relative to the table."""
    root = Path(dest, SYMLINKS)
    found = {}
    for path in sorted(root.rglob("manifest")):
        urls = path.read_text().splitlines()
        assert all(url.startswith(f"file://{dest}/") for url in urls)
        found[str(path.parent.relative_to(root))] = [url[len(f"file://{dest}/") :] for url in urls]
    return found


def check(dest: str) -> None:
    """The manifests name the files of the last version, each in that of its partition."""
    files = [file.path for file in ray_committer.snapshot(dest).files()]
    found = manifests(dest)
    assert sorted(path for paths in found.values() for path in paths) == files
    assert all(path.startswith(f"{partition}/") for partition in found for path in found[partition])
    cursor = read_cursor(STORE, TablePlaces(dest), "symlink")
    assert cursor is not None
    assert cursor.version >= ray_committer.history(dest)[-1].version
    assert not list(Path(dest, "_ray_committer/exports/symlink").iterdir())


def test_each_partition_has_one_manifest_that_follows_the_table(table: str):
    done = export(table, "symlink")
    assert (done.version, done.versions, done.added, done.removed) == (4, 1, 2, 0)
    assert manifests(table) == {"day=1": ["day=1/a.parquet"], "day=2": ["day=2/b.parquet"]}
    untouched = Path(table, SYMLINKS, "day=1/manifest").stat().st_ino
    commit(table, {"day=2/c.parquet": [4]}, "overwrite_partitions")
    commit(table, {"day=3/d.parquet": [5], "day=3/_hidden.parquet": [0]})
    done = export(table, "symlink")
    assert (done.versions, done.added, done.removed) == (2, 2, 1)
    assert manifests(table) == {
        "day=1": ["day=1/a.parquet"],
        "day=2": ["day=2/c.parquet"],
        "day=3": ["day=3/d.parquet"],
    }
    assert Path(table, SYMLINKS, "day=1/manifest").stat().st_ino == untouched
    assert export(table, "symlink").versions == 0


def test_a_partition_without_files_has_an_empty_manifest(table: str):
    export(table, "symlink")
    ray_committer.drop_partition(table, ["day=1"], executor="inline")
    export(table, "symlink")
    assert manifests(table)["day=1"] == []
    check(table)
    Path(TablePlaces(table).export("symlink")).unlink()
    ray_committer.drop_partition(table, ["day=2"], executor="inline")
    export(table, "symlink")
    assert manifests(table) == {"day=1": [], "day=2": []}


def test_a_table_without_partitions_has_one_manifest(dest: Path):
    table = new_table(dest)
    commit(table, {"a.csv": [1], "b.csv": [2]})
    export(table, "symlink")
    assert manifests(table) == {".": ["a.csv", "b.csv"]}


def test_names_are_those_of_the_directories_also_below_others(dest: Path):
    table = new_table(dest / "ü b%20#")
    names = ["p=a%3A b/x/k=1/ü a%.parquet", "p=a%3A b/k=1/b.parquet"]
    commit(table, {name: [1] for name in names})
    export(table, "symlink")
    assert manifests(table) == {"p=a%3A b/k=1": sorted(names)}
    commit(table, {"p=a%3A b/x/k=1/c.parquet": [1]})
    export(table, "symlink")
    assert manifests(table) == {"p=a%3A b/k=1": sorted([*names, "p=a%3A b/x/k=1/c.parquet"])}


def test_many_partitions_at_once(table: str):
    export(table, "symlink")
    commit(table, {f"day={day}/z.parquet": [day] for day in range(FEW + 2)})
    export(table, "symlink")
    check(table)


def test_a_lost_cursor_writes_all_manifests_anew(table: str):
    export(table, "symlink")
    Path(TablePlaces(table).export("symlink")).unlink()
    commit(table, {"day=2/c.parquet": [4]}, "overwrite")
    assert export(table, "symlink").versions == 1
    check(table)


def of_another_program(table: Path) -> None:
    (table / SYMLINKS / "day=1").mkdir(parents=True)
    (table / SYMLINKS / "day=1/manifest").write_text("file:/elsewhere\n")


def other_columns(table: Path) -> None:
    commit(str(table), {"day=1/hour=1/a.parquet": [1]})


def other_columns_later(table: Path) -> None:
    export(str(table), "symlink")
    commit(str(table), {"c.parquet": [1]})


def line_break(table: Path) -> None:
    commit(str(table), {"day=1/a\nb.parquet": [1]})


BAD = {
    of_another_program: f"/{SYMLINKS}: has manifests that this package has not made for this",
    other_columns: "day=1/hour=1/a.parquet: has the partition columns day/hour, but other",
    other_columns_later: "c.parquet: has the partition columns /, but other files of the table",
    line_break: r"a\\nb.parquet': has a line break in its name",
}


@pytest.mark.parametrize("prepare", BAD, ids=lambda one: one.__name__)
def test_what_cannot_be_exported_is_one_error_and_changes_no_manifest(
    table: str, prepare: Callable[[Path], None]
):
    prepare(Path(table))
    root = Path(table, SYMLINKS)
    before = {path: path.read_text() for path in root.rglob("manifest")}
    with pytest.raises(ExportError, match=BAD[prepare]):
        export(table, "symlink")
    assert {path: path.read_text() for path in root.rglob("manifest")} == before


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
            export(table, "symlink", with_crash)
            commit(table, {"day=1/c.parquet": [4]}, "overwrite_partitions")
            export(table, "symlink", with_crash)
        except SimulatedCrash:
            commit(table, {"day=5/c.parquet": [4]})
            export(table, "symlink")
            check(table)
        else:
            assert number > 25
            return
    raise AssertionError("an export makes too many requests")


@pytest.mark.slow
@STRIDES
def test_an_export_that_is_passed_at_any_request_puts_no_old_manifest_in_place(dest: Path, stride: int):
    """At one request of an export, another job is committed, and another export runs to its end."""
    for number in range(1 + RANGE % stride, 200, stride):
        table = new_table(dest / str(number))
        commit(table, FIRST)
        export(table, "symlink")
        commit(table, {"day=1/c.parquet": [4], "day=2/c.parquet": [4]}, "overwrite_partitions")
        passed = Passed(table, number)
        export(table, "symlink", WrappedStore(STORE, before=passed))
        check(table)
        if not passed.did:
            assert number > 20
            return
    raise AssertionError("an export makes too many requests")


class Passed:
    """At the call with a number, another job and another export pass by."""

    def __init__(self, table: str, number: int) -> None:
        self.table, self.number, self.did = table, number, False

    def __call__(self, call: StoreCall) -> None:
        if call.number == self.number and not self.did:
            self.did = True
            commit(self.table, {"day=1/d.parquet": [5], "day=2/d.parquet": [5]}, "overwrite_partitions")
            export(self.table, "symlink")


@pytest.mark.slow
@STRIDES
def test_an_export_that_dies_in_the_middle_after_another_has_passed_is_made_good(
    dest: Path, stride: int
):
    """What it has moved is old by then, and no cursor shows it: its plan does."""
    for number in range(1 + RANGE % stride, 200, stride):
        table = new_table(dest / str(number))
        commit(table, FIRST)
        export(table, "symlink")
        commit(table, {"day=1/c.parquet": [4], "day=2/c.parquet": [4]}, "overwrite_partitions")
        hook, passed = crash_at(number + 1), Passed(table, number)

        def both(call: StoreCall, hook=hook, passed=passed) -> None:
            passed(call)
            hook(call)

        try:
            export(table, "symlink", WrappedStore(STORE, before=both))
        except SimulatedCrash:
            export(table, "symlink")
            check(table)
        else:
            return
    raise AssertionError("an export makes too many requests")


def test_exports_at_the_same_time_leave_the_last_version(table: str):
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            while not ended.is_set():
                export(table, "symlink")
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5):
        mode = "overwrite_partitions" if number % 2 else "append"
        commit(table, {f"day={number % 3}/{number}.parquet": [number]}, mode)
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures
    export(table, "symlink")
    check(table)


def test_a_plan_that_cannot_be_read_means_that_all_is_done_again(table: str):
    export(table, "symlink")
    Path(table, SYMLINKS, "day=1/manifest").write_text("old\n")
    left = Path(table, "_ray_committer/exports/symlink/left")
    left.mkdir()
    (left / "plan.entry").write_text("{")
    export(table, "symlink")
    check(table)


def test_rows_are_those_of_the_table(table: str):
    """As a program reads them that knows only the manifests."""
    export(table, "symlink")
    rows = []
    for partition, paths in manifests(table).items():
        for path in paths:
            rows += [(row["x"], partition) for row in pq.read_table(f"{table}/{path}").to_pylist()]
    assert sorted(rows) == [(1, "day=1"), (2, "day=1"), (3, "day=2")]


def test_a_turn_starts_from_the_earliest_plan(store: StoreOperations, table: str):
    places = TablePlaces(table)
    Turn(store, places, "symlink", 3)
    Turn(store, places, "symlink", 7)
    mine = Turn(store, places, "symlink", 5)
    mine.take_over()
    assert mine.since == 3
    assert mine.is_alone()
    mine.end()
    later = Turn(store, places, "symlink", 9)
    later.take_over()
    assert later.since == 9


@pytest.mark.slow
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("real_directories", [True, False])
def test_stores_with_and_without_directories(real_directories: bool, is_first: bool):
    """At each request of an export, another job is committed, and another export runs to its end."""
    for number in range(1, 200):
        memory = MemoryStore(real_directories=real_directories)
        store = table_on(memory, TABLE)
        append_commit(store, "a", [ListedFile("day=1/a", 1), ListedFile("day=2/b", 1)], partitions=[""])
        if not is_first:
            export_symlinks(store, TABLE, DEFINITION)
        append_commit(store, "b", [ListedFile("day=1/c", 1)], [ListedFile("day=1/a", 1)])
        did = []

        def passes(call: StoreCall, number=number, store=store, did=did) -> None:
            if call.number == number:
                did.append(call)
                append_commit(store, "c", [ListedFile("day=1/d", 1)], [ListedFile("day=1/c", 1)])
                export_symlinks(store, TABLE, DEFINITION)

        export_symlinks(WrappedStore(memory, before=passes), TABLE, DEFINITION)
        expected = "memory://test/table/day=1/" + ("d" if did else "c")
        assert store.read(f"/table/{SYMLINKS}/day=1/manifest").decode() == f"{expected}\n"
        assert store.read(f"/table/{SYMLINKS}/day=2/manifest").decode().endswith("/day=2/b\n")
        if not did:
            assert number > 20
            return
    raise AssertionError("an export makes too many requests")
