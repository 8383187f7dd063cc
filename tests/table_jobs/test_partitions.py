"""Which partitions a destination has: from its directories, from a log, and since a version."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.errors import CatalogTableError, JobNotFoundError
from ray_committer.protocol.partitions import PartitionChanges
from ray_committer.stores.base import StoreSpec
from ray_committer.table_jobs.partitions import (
    MOST_ALONE,
    TablePartitions,
    open_partitions,
    tell_catalog,
)
from ray_committer.table_jobs.table import init_table
from ray_committer.table_jobs.table_maintenance import drop_partition
from ray_committer.testing import MemoryStore
from tests.interop.catalogs.test_base import DictCatalog
from tests.table_jobs.test_snapshot import commit


def paths(changes: PartitionChanges) -> tuple[list[str], list[str]]:
    return [one.path for one in changes.there], [one.path for one in changes.gone]


def put(dest: Path, *names: str) -> str:
    for name in names:
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        (dest / name).write_text("x")
    return str(dest)


def now(dest: str, touched: list[str] | None = None) -> tuple[list[str], list[str]]:
    with open_partitions(dest) as found:
        return paths(found.now(touched))


def since(dest: str, version: int) -> tuple[list[str], list[str], int]:
    with open_partitions(dest) as found:
        jobs = found.touched_since(version)
        return (*paths(found.now(jobs.directories)), jobs.version)


@pytest.fixture
def table(dest: Path) -> str:
    put(dest, "day=0/old", "day=1/old")
    init_table(str(dest))
    return str(dest)


def test_a_destination_without_a_log_is_listed(dest: Path):
    table = put(dest, "d=1/h=1/a", "d=1/h=2/b", "d=2/h=1/_hidden", "_SUCCESS", "_temporary/0/d=3/h=1/a")
    (dest / "d=4").mkdir()
    assert now(table) == (["d=1/h=1", "d=1/h=2"], [])
    assert now(table, ["d=1/h=1", "d=2/h=1", "d=4", "d=5/h=1"]) == (
        ["d=1/h=1"],
        ["d=2/h=1", "d=4", "d=5/h=1"],
    )
    assert now(table, ["d=1"]) == (["d=1/h=1", "d=1/h=2"], [])
    assert now(table, []) == ([], [])


@pytest.mark.parametrize(
    ("name", "where"), [("part-0", ""), ("d=1/x/part-0", "/d=1/x"), ("x/part-0", "/x")]
)
def test_data_that_no_partition_has_is_named(dest: Path, name: str, where: str):
    table = put(dest, "d=1/a", name)
    with pytest.raises(CatalogTableError) as caught:
        now(table)
    assert caught.value.what.startswith(f"{dest}{where}: has data files")


def test_a_destination_that_is_not_there_is_an_error(dest: Path):
    with pytest.raises(JobNotFoundError, match=f"{dest}: does not exist"):
        now(str(dest))


def test_all_partitions_of_a_log_are_found(table: str, dest: Path):
    put(dest, "day=9/foreign")
    commit(table, "a", ["day=2/a"])
    assert now(table) == (["day=0", "day=1", "day=2"], [])


def test_jobs_since_a_version_change_exactly_their_partitions(table: str):
    assert since(table, 2) == ([], [], 2)
    version = commit(table, "a", ["day=1/a", "day=2/a"])
    assert since(table, 2) == (["day=1", "day=2"], [], version)
    commit(table, "b", ["day=3/b"], "overwrite")
    last = commit(table, "c", ["day=2/c"], "overwrite_partitions")
    assert since(table, version) == (["day=2", "day=3"], ["day=0", "day=1"], last)
    assert since(table, last - 1) == (["day=2"], [], last)


def test_a_removed_partition_is_gone(table: str):
    version = commit(table, "a", ["day=5/a", "day=6/a"])
    drop_partition(table, ["day=5"])
    assert since(table, version)[:2] == ([], ["day=5"])
    assert since(table, 2)[:2] == (["day=6"], ["day=5"])


def test_many_partitions_are_found_in_one_list(table: str):
    many = [f"day={day}" for day in range(100, 101 + MOST_ALONE)]
    commit(table, "a", [f"{path}/a" for path in many])
    assert now(table, [*many, "day=x"]) == (many, ["day=x"])
    assert now(table, many[:3]) == (many[:3], [])


@pytest.mark.parametrize(
    ("url", "location", "path"),
    [
        ("/t", "file:/t/d=1", "d=1"),
        ("/t", "file:///t", ""),
        ("/t", "/t/", ""),
        ("/t", "/tt", None),
        ("/t", "gs://t", None),
        ("/t", "/t/a b%20", "a b%20"),
        ("gs", "gs://bucket/t/d=1", "d=1"),
        ("gs", "gs://other/t", None),
        ("hdfs", "hdfs://nn:8020/t", ""),
        ("hdfs", "hdfs:///t", ""),
        ("hdfs", "hdfs://nn:9000/t", None),
        ("gs", "no place", None),
    ],
)
def test_places_of_a_catalog_are_recognised(url: str, location: str, path: str | None):
    spec = {"/t": StoreSpec("file"), "gs": StoreSpec("gs", "bucket"), "hdfs": StoreSpec("hdfs", "nn")}[
        url
    ]
    store = MemoryStore()
    store.spec = spec
    assert TablePartitions(store, "/t").path_of(location) == path


def test_a_catalog_is_told_of_all_and_keeps_what_is_elsewhere(dest: Path):
    table = put(dest, "day=1/a", "day=2/a")

    class Here(DictCatalog):
        location = f"file:{dest}"

        def known(self) -> list[str]:
            return [f"/elsewhere/{one}" if one == "day=8" else f"file:{dest}/{one}" for one in self.has]

    catalog = Here(["day=2", "day=3", "day=8"])
    with open_partitions(table) as found:
        told = tell_catalog(found, catalog)
    assert catalog.has == {"day=1", "day=2", "day=8"}
    assert paths(told) == (["day=1", "day=2"], ["day=3"])


def test_a_table_at_another_place_is_told_nothing(dest: Path):
    table, catalog = put(dest, "day=1/a"), DictCatalog()
    with open_partitions(table) as found:
        with pytest.raises(CatalogTableError, match=f"{dest}: is not where table db.t is, which is /t"):
            tell_catalog(found, catalog, ["day=1"])
        assert catalog.has == set()
        tell_catalog(found, catalog, ["day=1"], with_locations=True)
        assert catalog.has == {"day=1"}


def test_an_unpartitioned_table_has_nothing_to_tell(dest: Path):
    catalog = DictCatalog()
    catalog.columns, catalog.location = (), str(dest)
    with open_partitions(put(dest, "part-0")) as found:
        assert tell_catalog(found, catalog, [""]).are_none
