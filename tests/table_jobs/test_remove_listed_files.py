"""Old files that a claim keeps are taken away by one rename, and never by a link and an unlink."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.errors import CommitStateUnknownError
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import is_inside, join, parent
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.remove_listed_files import Removal, keep_listed_files
from ray_committer.table_jobs.table_files import as_listed
from ray_committer.testing import LinkingStore, SimulatedCrash, StoreCall, WrappedStore, visible_files
from ray_committer.testing.harness import put_file
from tests.stages.support import calls_of, do_at

OLD = {"a": b"1", "p=1/b": b"22"}
CLAIM = 3
LATER = b"of a later job"


@pytest.fixture(params=[LocalStore, LinkingStore])
def store(request: pytest.FixtureRequest) -> StoreOperations:
    return request.param(StoreSpec("file"))


def table_at(store: StoreOperations, path: Path) -> tuple[TablePlaces, list[ListedFile]]:
    """A table with the old files, as the log names them."""
    table, files = TablePlaces(str(path)), list[ListedFile]()
    store.mkdirs(table.temporaries)
    for name, data in OLD.items():
        put_file(store, join(table.destination, name), data)
        status = store.get_status(join(table.destination, name))
        assert status is not None
        files.append(as_listed(name, status))
    return table, files


def keep(store: StoreOperations, table: TablePlaces, files: list[ListedFile]) -> Removal:
    return keep_listed_files(store, table, CLAIM, files, lambda: True)


def of_readers(store: StoreOperations, table: TablePlaces) -> dict[str, bytes]:
    found = visible_files(store, table.destination)
    return {name: data for name, data in found.items() if not name.startswith("_")}


def kept(store: StoreOperations, table: TablePlaces) -> dict[str, bytes]:
    return {name: store.read(table.kept(CLAIM, name)) for name in OLD}


def test_no_name_that_readers_see_is_linked_or_deleted(store, tmp_path: Path):
    table, files = table_at(store, tmp_path / "table")
    calls = calls_of(store, lambda one: keep(one, table, files))
    changes = [call for call in calls if call.operation in ("rename", "unlink", "delete_file")]
    assert changes
    assert all(is_inside(call.paths[0], table.directory) for call in changes)
    assert kept(store, table) == OLD
    assert of_readers(store, table) == {}


@pytest.mark.parametrize("opens", [LocalStore, LinkingStore])
def test_a_run_that_dies_anywhere_is_ended_by_the_next(opens: Callable, tmp_path: Path):
    whole = table_at(store := opens(StoreSpec("file")), tmp_path / "0")
    for number in range(1, len(calls_of(store, lambda one: keep(one, *whole))) + 1):
        table, files = table_at(store := opens(StoreSpec("file")), tmp_path / str(number))

        def die(call: StoreCall, number: int = number) -> None:
            if call.number == number:
                raise SimulatedCrash(call)

        with pytest.raises(SimulatedCrash):
            keep(WrappedStore(store, before=die), table, files)
        assert keep(store, table, files).kept == ()
        assert kept(store, table) == OLD
        assert of_readers(store, table) == {}


def test_a_run_that_wakes_up_when_another_has_ended_takes_nothing_of_a_later_job(store, tmp_path: Path):
    table, files = table_at(store, tmp_path / "table")

    def others() -> None:
        keep(store, table, files)
        put_file(store, join(table.destination, "a"), LATER)

    keep(WrappedStore(store, before=do_at("set_aside", others)), table, files)
    assert of_readers(store, table) == {"a": LATER}
    assert kept(store, table) == OLD


def test_what_is_taken_after_the_look_and_is_another_file_is_put_back(store, tmp_path: Path):
    table, files = table_at(store, tmp_path / "table")
    path = join(table.destination, "a")

    def replaced() -> None:
        store.delete_file(path)
        put_file(store, path, LATER)

    found = keep(WrappedStore(store, before=do_at("set_aside", replaced)), table, files)
    assert of_readers(store, table) == {"a": LATER}
    assert found.kept == ("a: has 14 bytes, not 1",)
    assert store.read(table.kept(CLAIM, "p=1/b")) == OLD["p=1/b"]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_file_that_is_kept_already_stays(store, is_same: bool, tmp_path: Path):
    table, files = table_at(store, tmp_path / "table")
    place = table.kept(CLAIM, "a")
    store.mkdirs(parent(place))
    store.write(place, OLD["a"] if is_same else b"of others")
    was = os.stat(join(table.destination, "a"))
    os.utime(place, ns=(was.st_atime_ns, was.st_mtime_ns))
    if is_same:
        keep(store, table, files)
        assert kept(store, table) == OLD
        return
    for _ in range(2):
        with pytest.raises(CommitStateUnknownError, match="another file is in the place where"):
            keep(store, table, files)
        assert store.read(place) == b"of others"
    store.delete_file(place)
    keep(store, table, files)
    assert kept(store, table) == OLD
