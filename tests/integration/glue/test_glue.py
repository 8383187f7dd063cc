"""Glue is told of partitions: exactly, again, after a crash between any two requests, beside others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest

import ray_committer.interop.catalogs.glue as glue_table
from ray_committer.errors import CatalogError, CatalogTableError, SettingsError
from ray_committer.interop.catalogs.glue import GlueTable
from ray_committer.table_jobs.partitions import open_partitions, tell_catalog
from ray_committer.testing import SimulatedCrash
from tests.servers.moto import MotoServer
from tests.table_jobs.test_partitions import put

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]

NULL = "__HIVE_DEFAULT_PARTITION__"
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}


REQUESTS = 6
"""One for the table, one for what it has of the gone, two that delete and two that create."""


@pytest.fixture
def glue(moto: MotoServer, dest: Path) -> Iterator[Any]:
    """A client, and a table at the destination."""
    client = boto3.client("glue", endpoint_url=moto.url, **KEYS)
    client.create_database(DatabaseInput={"Name": "db"})
    client.create_table(
        DatabaseName="db",
        TableInput={
            "Name": "t",
            "PartitionKeys": [{"Name": "day", "Type": "int"}, {"Name": "at", "Type": "string"}],
            "StorageDescriptor": {
                "Location": f"file:{dest}",
                "Columns": [{"Name": "x", "Type": "int"}],
                "SerdeInfo": {"SerializationLibrary": "lib"},
            },
        },
    )
    yield client
    client.delete_table(DatabaseName="db", Name="t")
    client.delete_database(Name="db")
    client.close()


def known(glue: Any) -> dict[str, str]:
    """The partitions that Glue has, with their locations."""
    pages = glue.get_paginator("get_partitions").paginate(DatabaseName="db", TableName="t")
    found = [one for page in pages for one in page["Partitions"]]
    return {"/".join(one["Values"]): one["StorageDescriptor"]["Location"] for one in found}


def tell(glue: Any, dest: Path, touched: list[str] | None = None) -> None:
    with open_partitions(str(dest)) as found:
        tell_catalog(found, GlueTable("db.t", glue), touched)


def create(glue: Any, values: list[str], location: str) -> None:
    glue.create_partition(
        DatabaseName="db",
        TableName="t",
        PartitionInput={"Values": values, "StorageDescriptor": {"Location": location}},
    )


def test_exactly_the_partitions_in_question_change(glue: Any, dest: Path):
    put(dest, "day=1/at=10%3A30/a", f"day={NULL}/at={NULL}/a", "day=4/at=x/a")
    create(glue, ["2", "b"], f"file:{dest}/day=2/at=b")
    create(glue, ["3", "c"], f"file:{dest}/day=3/at=c")
    tell(glue, dest, ["day=1/at=10%3A30", f"day={NULL}/at={NULL}", "day=2/at=b", "day=9/at=z"])
    assert known(glue) == {
        "1/10:30": f"file:{dest}/day=1/at=10%3A30",
        f"{NULL}/{NULL}": f"file:{dest}/day={NULL}/at={NULL}",
        "3/c": f"file:{dest}/day=3/at=c",
    }
    one = glue.get_partition(DatabaseName="db", TableName="t", PartitionValues=["1", "10:30"])
    storage = one["Partition"]["StorageDescriptor"]
    assert storage["SerdeInfo"] == {"SerializationLibrary": "lib"}
    assert storage["Columns"] == [{"Name": "x", "Type": "int"}]


def test_all_partitions_are_compared_and_others_stay(glue: Any, dest: Path):
    put(dest, *(f"day={day}/at=x/a" for day in range(101)))
    create(glue, ["500", "x"], "s3://elsewhere/day=500/at=x")
    for day in range(300, 326):
        create(glue, [str(day), "x"], f"file://{dest}/day={day}/at=x")
    for _ in range(2):
        tell(glue, dest)
        assert set(known(glue)) == {*(f"{day}/x" for day in range(101)), "500/x"}


def test_what_is_below_a_directory_without_files_goes(glue: Any, dest: Path):
    put(dest, "day=1/at=x/a")
    for values in (["1", "x"], ["2", "y"], ["2", "z"]):
        create(glue, values, f"file:{dest}/day={values[0]}/at={values[1]}")
    tell(glue, dest, ["day=2"])
    assert set(known(glue)) == {"1/x"}


@pytest.mark.parametrize("point", ["before-send", "after-call"])
def test_the_same_command_repairs_a_crash_at_any_request(
    point: str, glue: Any, dest: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each run dies one request later than the one before it, and the last one not at all."""
    monkeypatch.setattr(glue_table, "MOST_CREATED", 2)
    monkeypatch.setattr(glue_table, "MOST_DELETED", 2)
    put(dest, *(f"day={day}/at=x/a" for day in range(3)))
    touched = [f"day={day}/at=x" for day in range(6)]
    for crash in range(REQUESTS + 1):
        for one in known(glue):
            glue.delete_partition(DatabaseName="db", TableName="t", PartitionValues=one.split("/"))
        for day in range(3, 6):
            create(glue, [str(day), "x"], f"file:{dest}/day={day}/at=x")
        assert died_at(crash, point, glue, lambda: tell(glue, dest, touched)) is (crash < REQUESTS)
        tell(glue, dest, touched)
        assert set(known(glue)) == {f"{day}/x" for day in range(3)}


def died_at(crash: int, point: str, glue: Any, do: Callable[[], None]) -> bool:
    """Whether something makes more than `crash` requests; it dies then."""
    requests = 0

    def die(**_: Any) -> None:
        nonlocal requests
        requests += 1
        if requests == crash + 1:
            raise SimulatedCrash

    glue.meta.events.register(f"{point}.glue", die)
    try:
        do()
    except SimulatedCrash:
        return True
    finally:
        glue.meta.events.unregister(f"{point}.glue", die)
    return False


def test_two_at_once_are_harmless(glue: Any, dest: Path):
    put(dest, *(f"day={day}/at=x/a" for day in range(20)))
    for day in range(20, 40):
        create(glue, [str(day), "x"], f"file:{dest}/day={day}/at=x")
    touched = [f"day={day}/at=x" for day in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tell(glue, dest, touched), range(4)))
    assert set(known(glue)) == {f"{day}/x" for day in range(20)}


def test_bad_tables_are_named(glue: Any, dest: Path):
    with pytest.raises(CatalogTableError, match=r"db\.none: is not a table in Glue"):
        GlueTable("db.none", glue)
    with pytest.raises(CatalogTableError, match=r"nodb\.t: is not a table in Glue"):
        GlueTable("nodb.t", glue)
    with pytest.raises(SettingsError, match="t: names no database"):
        GlueTable("t", glue)
    put(dest, "day=1/a")
    with pytest.raises(CatalogTableError, match=r"day=1: does not fit table db\.t, .* are day, at"):
        tell(glue, dest)
    assert known(glue) == {}


def test_a_catalog_that_refuses_or_is_down_is_an_error(glue: Any, moto: MotoServer):
    def refuse(**_: Any) -> Any:
        from botocore.awsrequest import AWSResponse
        from urllib3 import HTTPResponse

        body = b'{"__type": "AccessDeniedException", "Message": "no permission"}'
        return AWSResponse(moto.url, 400, {}, HTTPResponse(BytesIO(body), preload_content=False))

    glue.meta.events.register("before-send.glue", refuse)
    try:
        with pytest.raises(CatalogError, match=r"db\.t: Glue does not do this: .*no permission"):
            GlueTable("db.t", glue)
    finally:
        glue.meta.events.unregister("before-send.glue", refuse)
    config = boto3.session.Config(retries={"total_max_attempts": 1})
    down = boto3.client("glue", endpoint_url="http://127.0.0.1:1", config=config, **KEYS)
    with pytest.raises(CatalogError, match=r"db\.t: Glue does not do this: Could not connect"):
        GlueTable("db.t", down)
    down.close()


def test_the_command_tells_glue(glue: Any, moto: MotoServer, dest: Path):
    put(dest, "day=1/at=x/a")
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_DEFAULT_REGION": "us-east-1"}
    run: Callable[..., Any] = subprocess.run
    command = ["partitions", str(dest), "--format", "glue", "--table", "db.t"]
    named = ["--partition", "day=1/at=x", "--partition", "day=2/at=x"]
    done = run(
        [sys.executable, "-m", "ray_committer.cli", *command, *named],
        env={**os.environ, **keys, "AWS_ENDPOINT_URL_GLUE": moto.url},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "db.t: 1 partition with files, 1 partition without\n"
    assert set(known(glue)) == {"1/x"}
