"""Py4J's callback port is open to every user of the machine: who has no secret, gets nothing from it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer.spark import install
from tests.integration.spark.conftest import data_files
from tests.jar_requests import request, tasks_of

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECRETS = ("", "0" * 64, "guessed")


@contextmanager
def connection(spark: SparkSession) -> Iterator[Any]:
    """What anybody on this machine can open."""
    port = spark.sparkContext._gateway._callback_server.server_socket.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        yield opened.makefile("rw", newline="\n")


def call(spark: SparkSession, name: str, method: str, *texts: str) -> str:
    """Call a method of the Python object that Py4J knows by this name; the answer's first line."""
    escaped = [text.replace("\\", "\\\\").replace("\n", "\\n") for text in texts]
    with connection(spark) as stream:
        stream.write("\n".join(["c", name, method, *(f"s{text}" for text in escaped), "e", ""]))
        stream.flush()
        return stream.readline()


def objects(spark: SparkSession) -> list[str]:
    """The names that an attacker would try: Py4J counts them."""
    names = list(spark.sparkContext._gateway.gateway_property.pool.dict)
    assert names
    assert all(name.startswith("p") or name == "t" for name in names)
    return names


@pytest.fixture
def request_json(dest: Path, write_job) -> str:
    """A request for the commit of a job that somebody else is still writing; only the secret lacks."""
    write_job({0: {"part-0": "not yet to be seen"}})
    return request(dest, tasks=tasks_of(dest))


@pytest.mark.parametrize("method", ["commitJob", "setupJob", "startWorkers", "loadTasks", "abortJob"])
def test_a_request_without_the_secret_does_nothing(
    spark: SparkSession, installation, dest: Path, request_json: str, method: str
):
    if method == "setupJob":
        request_json = request_json.replace("job_1", "job_2")
    before = sorted(path.name for path in dest.rglob("*"))
    for name in objects(spark):
        assert call(spark, name, method, request_json).startswith("!x")
    for secret in SECRETS:
        answers = [call(spark, name, method, secret, request_json) for name in objects(spark)]
        assert all("without the secret" in one or one.startswith("!x") for one in answers)
        assert any("without the secret" in one for one in answers)
    assert sorted(path.name for path in dest.rglob("*")) == before
    assert installation.handler.commits == 0
    assert data_files(dest) == set()


@pytest.mark.parametrize(
    "method",
    ["__setattr__", "__getattribute__", "__class__", "_answer", "cancel", "__init__", "__dir__"],
)
def test_nothing_else_of_what_python_offers_can_be_called(
    spark: SparkSession, installation, method: str
):
    for name in objects(spark):
        answer = call(spark, name, method, "secret", "guessed")
        assert answer.startswith("!x"), answer


def test_spark_itself_commits_and_a_refusal_is_logged(
    spark: SparkSession, installation, rows: DataFrame, dest: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG", "ray_committer")
    rows.write.parquet(str(dest))
    assert spark.read.parquet(str(dest)).count() == 600
    call(spark, objects(spark)[-1], "commitJob", "guessed", "{}")
    assert "without the secret of this session was refused" in caplog.text


def test_a_session_that_is_installed_again_has_another_secret(
    spark: SparkSession, installation, rows: DataFrame, tmp_path: Path
):
    for name in ("a", "b"):
        install(spark)
        rows.write.parquet(str(tmp_path / name))
        assert spark.read.parquet(str(tmp_path / name)).count() == 600
