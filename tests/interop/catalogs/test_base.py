"""How a catalog is told: beside other processes, after a crash between any two calls, again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from ray_committer.errors import CatalogError, CatalogTableError
from ray_committer.interop.catalogs.base import Places, is_to_be_dropped, sync_catalog
from ray_committer.protocol.partitions import Partition, PartitionChanges, changes_in
from ray_committer.testing import SimulatedCrash


class At:
    def place(self, partition: Partition) -> str:
        return f"/t/{partition.path}"

    def path_of(self, location: str) -> str | None:
        return location.removeprefix("/t/") if location.startswith("/t/") else None


class DictCatalog:
    """A catalog in memory, with a call before each request."""

    table, columns, location = "db.t", ("day",), "/t"

    def __init__(
        self, known: Iterable[str] = (), before: Callable[[str], None] = lambda _: None
    ) -> None:
        self.has = set(known)
        self.before = before

    def add(self, partitions: Sequence[Partition], places: Places) -> None:
        self.before("add")
        self.has |= {one.path for one in partitions}

    def drop(self, partitions: Sequence[Partition], places: Places) -> None:
        self.before("drop")
        self.has -= {one.path for one in partitions}

    def known(self) -> Iterable[str]:
        return [f"/t/{path}" for path in self.has]


class Table:
    """The directories with files, and those that a job has touched."""

    def __init__(self, filled: Iterable[str], touched: Iterable[str]) -> None:
        self.filled, self.touched = set(filled), set(touched)

    def look(self) -> PartitionChanges:
        return changes_in(self.touched, self.filled & self.touched)


def test_a_catalog_is_told_once():
    calls: list[str] = []
    table, catalog = Table(["day=1"], ["day=1", "day=2"]), DictCatalog(["day=2", "day=9"], calls.append)
    told = sync_catalog(catalog, table.look, At())
    assert catalog.has == {"day=1", "day=9"}
    assert calls == ["drop", "add"]
    assert [one.path for one in told.there] == ["day=1"]
    assert [one.path for one in told.gone] == ["day=2"]


def test_nothing_to_tell_is_no_call():
    calls: list[str] = []
    sync_catalog(DictCatalog(before=calls.append), Table([], []).look, At())
    assert calls == []


@pytest.mark.parametrize("at", ["drop", "add"])
def test_what_another_job_does_in_between_is_told_as_well(at: str):
    """It told the catalog already, before the late call here spoiled it."""
    table = Table(["day=1"], ["day=1", "day=2"])
    catalog = DictCatalog(["day=2"])

    def other_job(call: str) -> None:
        if call == at:
            catalog.before = lambda _: None
            table.filled = {"day=2"}
            catalog.has = {"day=2"}

    catalog.before = other_job
    sync_catalog(catalog, table.look, At())
    assert catalog.has == {"day=2"}


@pytest.mark.parametrize("call", range(3))
def test_the_same_call_repairs_a_crash(call: int):
    calls: list[str] = []

    def die(name: str) -> None:
        calls.append(name)
        if len(calls) == call + 1:
            raise SimulatedCrash

    table, catalog = Table(["day=1"], ["day=1", "day=2"]), DictCatalog(["day=2"], die)
    for _ in range(2):
        try:
            sync_catalog(catalog, table.look, At())
        except SimulatedCrash:
            continue
    assert catalog.has == {"day=1"}


def test_partitions_that_never_rest_are_an_error():
    table = Table(["day=1"], ["day=1"])

    def toggle(_: str) -> None:
        table.filled ^= {"day=1"}

    with pytest.raises(CatalogError, match=r"db\.t: its partitions have changed during each of 10"):
        sync_catalog(DictCatalog(before=toggle), table.look, At())


def test_a_catalog_is_told_nothing_if_a_directory_does_not_fit():
    calls: list[str] = []
    table = Table(["day=1", "hour=1"], ["day=1", "hour=1"])
    with pytest.raises(CatalogTableError, match=r"hour=1: does not fit table db\.t"):
        sync_catalog(DictCatalog(before=calls.append), table.look, At())
    assert calls == []


@pytest.mark.parametrize(
    ("location", "is_dropped"),
    [("/t/d=1", True), ("/t/d=1/h=1", True), ("/t/d=10", False), ("/x/d=1", False)],
)
def test_a_partition_somewhere_else_is_not_the_one_that_is_gone(location: str, is_dropped: bool):
    assert is_to_be_dropped(location, {"d=1"}, At()) is is_dropped
