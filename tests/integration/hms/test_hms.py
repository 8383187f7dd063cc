"""A Hive metastore is told of partitions: exactly, again, after a crash, and beside others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ray_committer.interop.catalogs.hms as hms
from ray_committer.errors import CatalogError, CatalogTableError, SettingsError
from ray_committer.interop.catalogs.hms import MetastoreTable
from ray_committer.table_jobs.partitions import open_partitions, tell_catalog
from ray_committer.testing import SimulatedCrash
from tests.cli.commands import run
from tests.servers.metastore import Metastore
from tests.table_jobs.test_partitions import put

pytestmark = [pytest.mark.server, pytest.mark.wide, pytest.mark.xdist_group("hms")]

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    metastore = Metastore(tmp_path_factory.mktemp("metastore"))
    metastore.start()
    yield metastore
    metastore.stop()


@pytest.fixture
def client(server: Metastore, dest: Path) -> Iterator[Any]:
    """A connection, and a table at the destination."""
    types, found, transport = hms.connect(server.uri)
    column = types.FieldSchema
    found.create_table(
        types.Table(
            "t",
            "default",
            sd=types.StorageDescriptor(
                [column("x", "int")],
                f"file:{dest}",
                "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
                "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
                serdeInfo=types.SerDeInfo("s", "lib", {}),
                parameters={},
            ),
            partitionKeys=[column("day", "int"), column("at", "string")],
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )
    )
    yield found
    found.drop_table("default", "t", False)
    transport.close()


def known(client: Any) -> dict[str, str]:
    found = client.get_partitions("default", "t", -1)
    return {"/".join(one.values): one.sd.location for one in found}


def tell(server: Metastore, dest: Path, touched: list[str] | None = None, table: Any = None) -> None:
    catalog = table or MetastoreTable("default.t", server.uri)
    with open_partitions(str(dest)) as found:
        tell_catalog(found, catalog, touched)
    catalog.close()


def test_exactly_the_partitions_in_question_change(client: Any, server: Metastore, dest: Path):
    put(
        dest,
        "day=1/at=10%3A30/a",
        f"day={NULL}/at=it's%25/a",
        "day=2/at=b/a",
        "day=3/at=c/a",
        "day=4/at=x/a",
    )
    tell(server, dest, ["day=2/at=b", "day=3/at=c"])
    (dest / "day=2/at=b/a").unlink()
    tell(server, dest, ["day=1/at=10%3A30", f"day={NULL}/at=it's%25", "day=2/at=b", "day=9/at=z"])
    assert known(client) == {
        "1/10:30": f"file:{dest}/day=1/at=10%3A30",
        f"{NULL}/it's%": f"file:{dest}/day={NULL}/at=it's%25",
        "3/c": f"file:{dest}/day=3/at=c",
    }
    assert (dest / "day=2/at=b").is_dir()
    storage = client.get_partition("default", "t", ["3", "c"]).sd
    assert (storage.serdeInfo.serializationLib, storage.cols[0].name) == ("lib", "x")


def test_all_partitions_are_compared(client: Any, server: Metastore, dest: Path):
    put(dest, *(f"day={day}/at=x/a" for day in range(210)))
    tell(server, dest)
    for day in range(105):
        (dest / f"day={day}/at=x/a").unlink()
    for _ in range(2):
        tell(server, dest)
        assert set(known(client)) == {f"{day}/x" for day in range(105, 210)}


def test_the_same_command_repairs_a_crash_at_any_request(
    client: Any, server: Metastore, dest: Path, monkeypatch: pytest.MonkeyPatch
):
    """A request that was sent is answered or not: each run dies one later, before or after it."""
    monkeypatch.setattr(hms, "MOST", 2)
    put(dest, *(f"day={day}/at=x/a" for day in range(6)))
    crash, is_over = 0, False
    while not is_over:
        tell(server, dest)
        for day in range(3, 6):
            (dest / f"day={day}/at=x/a").unlink(missing_ok=True)
        put(dest, *(f"day={day}/at=x/a" for day in range(6, 9)))
        table = MetastoreTable("default.t", server.uri)
        is_over = not died_at(crash, table, lambda table=table: tell(server, dest, None, table))
        tell(server, dest)
        assert set(known(client)) == {f"{day}/x" for day in (0, 1, 2, 6, 7, 8)}
        for day in range(6, 9):
            (dest / f"day={day}/at=x/a").unlink()
        put(dest, *(f"day={day}/at=x/a" for day in range(3, 6)))
        crash += 1
    assert crash > 2 * 5


def died_at(crash: int, table: MetastoreTable, do: Any) -> bool:
    """Whether something makes more than half of `crash` requests; it dies then, an odd `crash` after
    the request."""
    real, requests = table.client, 0

    class Dying:
        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                nonlocal requests
                requests += 1
                if requests == crash // 2 + 1 and not crash % 2:
                    raise SimulatedCrash
                answer = getattr(real, name)(*arguments)
                if requests == crash // 2 + 1:
                    raise SimulatedCrash
                return answer

            return call

    table.client = Dying()
    try:
        do()
    except SimulatedCrash:
        table.close()
        return True
    return False


def test_two_at_once_are_harmless(client: Any, server: Metastore, dest: Path):
    put(dest, *(f"day={day}/at=x/a" for day in range(40)))
    tell(server, dest)
    for day in range(20):
        (dest / f"day={day}/at=x/a").unlink()
    put(dest, *(f"day={day}/at=x/a" for day in range(40, 60)))
    touched = [f"day={day}/at=x" for day in range(60)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tell(server, dest, touched), range(4)))
    assert set(known(client)) == {f"{day}/x" for day in range(20, 60)}


def test_bad_tables_are_named(client: Any, server: Metastore, dest: Path):
    with pytest.raises(CatalogTableError, match=r"default\.none: is not a table in the metastore at"):
        MetastoreTable("default.none", server.uri)
    with pytest.raises(CatalogTableError, match=r"nodb\.t: is not a table in the metastore at"):
        MetastoreTable("nodb.t", server.uri)
    put(dest, "day=1/a")
    with pytest.raises(CatalogTableError, match=r"day=1: does not fit table default\.t, .* are day, at"):
        tell(server, dest)
    assert known(client) == {}


def test_a_metastore_that_is_down_is_an_error():
    with pytest.raises(CatalogError, match=r"t: the metastore at thrift://127\.0\.0\.1:1: Could not"):
        MetastoreTable("t", "thrift://127.0.0.1:1")
    with pytest.raises(SettingsError, match="is not the address of a metastore"):
        MetastoreTable("t", "thrift://:x")


def test_the_command_tells_it(client: Any, server: Metastore, dest: Path):
    put(dest, "day=1/at=x/a")
    command = ("partitions", str(dest), "--format", "hms", "--table", "t")
    done = run(*command, "--metastore", server.uri, "--partition", "day=1/at=x")
    assert done.output == "t: 1 partition with files, 0 partitions without\n"
    assert set(known(client)) == {"1/x"}
    assert "--format hms needs --metastore" in run(*command).output
