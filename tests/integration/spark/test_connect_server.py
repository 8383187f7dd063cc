"""Clients of a Spark Connect server: their writes are committed, and they name none of its programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ray_committer.spark.settings import COMMAND_KEY, EXECUTOR_KEY
from tests.integration.spark.conftest import data_files
from tests.integration.spark.connect import client, connect_server
from tests.integration.spark.jvm import COMMAND

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-scripts"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        pyspark.__version__.startswith("3."), reason="PySpark 3.5 comes without the Connect server"
    ),
]

PSSST = "pssst-0123"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    conf = {COMMAND_KEY: COMMAND, "spark.hadoop.fs.s3a.secret.key": PSSST}
    with connect_server(tmp_path_factory.mktemp("connect"), conf) as found:
        yield found


@pytest.fixture
def remote(url: str) -> Iterator[Any]:
    session = client(url)
    yield session
    session.stop()


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that leaves a trace, and then does what is asked of it."""
    path = tmp_path / "program"
    path.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {COMMAND} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_clients_write_is_committed_and_its_own_options_count(remote, dest: Path):
    rows = remote.range(30).selectExpr("id", "id % 3 AS p")
    rows.write.partitionBy("p").parquet(str(dest))
    assert json.loads((dest / "_SUCCESS").read_bytes())["committer"] == "ray_committer"
    again = rows.write.mode("append").partitionBy("p").option("spark.ray_committer.threads", "2")
    again.parquet(str(dest))
    assert remote.read.parquet(str(dest)).count() == 60
    assert not (dest / "_temporary").exists()


def by_option(remote: Any, dest: str, key: str, value: str) -> None:
    remote.range(5).write.option(key, value).parquet(dest)


def by_session(remote: Any, dest: str, key: str, value: str) -> None:
    remote.conf.set(key, value)
    remote.range(5).write.parquet(dest)


def by_sql(remote: Any, dest: str, key: str, value: str) -> None:
    remote.sql(f"SET `{key}`={value}").collect()
    remote.range(5).write.parquet(dest)


def by_table(remote: Any, dest: str, key: str, value: str) -> None:
    options = f"OPTIONS ('{key}' = '{value}') LOCATION '{dest}'"
    remote.sql(f"CREATE TABLE of_client USING parquet {options} AS SELECT 1 AS id").collect()


SETTERS = [by_option, by_session, by_sql, by_table]


@pytest.mark.parametrize("set_it", SETTERS)
@pytest.mark.parametrize("key", [COMMAND_KEY, EXECUTOR_KEY, "spark.ray_committer.summary_directory"])
def test_a_client_names_no_program_no_cluster_and_no_store_of_the_driver(
    remote, dest: Path, program: str, tmp_path: Path, set_it: Callable[..., None], key: str
):
    value = {COMMAND_KEY: program, EXECUTOR_KEY: "ray"}.get(key, str(tmp_path / "reports"))
    with pytest.raises(Exception, match=f"{key}: this session or write has set it"):
        set_it(remote, str(dest), key, value)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "reports").exists()
    assert data_files(dest) == set()


def test_a_client_reads_no_secret_of_the_driver_through_a_variable(remote, dest: Path):
    key = "spark.ray_committer.retry_seconds"
    with pytest.raises(Exception, match=r"retry_seconds=\$\{fs") as caught:
        by_option(remote, str(dest), key, "${fs.s3a.secret.key}")
    assert PSSST not in str(caught.value)
