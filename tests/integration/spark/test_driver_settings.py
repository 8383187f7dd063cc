"""What only the driver's own configuration may say: of a session or a write it is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ray_committer.errors import SettingsError
from ray_committer.spark import install
from ray_committer.spark.hadoop.conf import PROVIDER_PATH, session_configuration
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.spark.settings import COMMAND_KEY, EXECUTOR_KEY, MODE_KEY
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import COMMAND
from tests.integration.spark.tasks import set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(180)]

SUMMARIES = "spark.ray_committer.summary_directory"
PSSST = "pssst-0123"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a trace, and then does what is asked of it."""
    path = tmp_path / "program"
    path.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {COMMAND} "$@"\n')
    path.chmod(0o755)
    return path


@contextmanager
def of_session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


Set = Callable[[SparkSession, DataFrame, str, str, str], Any]


def by_option(spark: SparkSession, rows: DataFrame, dest: str, key: str, value: str) -> None:
    rows.write.option(key, value).parquet(dest)


def by_session(spark: SparkSession, rows: DataFrame, dest: str, key: str, value: str) -> None:
    other = spark.newSession()
    for name in ("spark.sql.sources.commitProtocolClass", "spark.ray_committer.commit"):
        other.conf.set(name, spark.conf.get(name))
    other.conf.set(key, value)
    other.range(5).write.parquet(dest)


def by_sql(spark: SparkSession, rows: DataFrame, dest: str, key: str, value: str) -> None:
    with of_session(spark, {key: "in the next statement"}):
        spark.sql(f"SET {key}={value}")
        rows.write.parquet(dest)


def by_table(spark: SparkSession, rows: DataFrame, dest: str, key: str, value: str) -> None:
    options = f"OPTIONS ('{key}' = '{value}') LOCATION '{dest}'"
    spark.sql(f"CREATE TABLE refused USING parquet {options} AS SELECT 1")


def by_hadoop(spark: SparkSession, rows: DataFrame, dest: str, key: str, value: str) -> None:
    """In the configuration of the job itself, which the options of a write reach."""
    set_up(spark, Path(dest), {key: value})


@pytest.mark.parametrize("set_it", [by_option, by_session, by_sql, by_table, by_hadoop])
def test_no_session_and_no_write_names_the_program_that_the_driver_starts(
    spark, configure, rows: DataFrame, tmp_path: Path, program: Path, set_it: Set
):
    with pytest.raises(Exception, match=f"{COMMAND_KEY}: .*driver's own configuration"):
        set_it(spark, rows, str(tmp_path / "t"), COMMAND_KEY, str(program))
    assert not (tmp_path / "ran").exists()
    assert data_files(tmp_path / "t") == set()


def test_a_write_that_repeats_what_the_driver_says_is_committed(
    spark, configure, rows: DataFrame, tmp_path: Path, program: Path
):
    configure(command=str(program))
    by_option(spark, rows, str(tmp_path / "t"), COMMAND_KEY, str(program))
    assert (tmp_path / "ran").exists()
    assert spark.read.parquet(str(tmp_path / "t")).count() == 600


@pytest.mark.one_spark
def test_a_program_is_refused_by_name_also_where_python_commits(
    spark, installation, rows: DataFrame, tmp_path: Path, program: Path
):
    with pytest.raises(Exception, match=f"{COMMAND_KEY}: .*nothing was written"):
        by_option(spark, rows, str(tmp_path / "t"), COMMAND_KEY, str(program))
    assert not (tmp_path / "ran").exists()
    assert installation.handler.commits == 0


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (EXECUTOR_KEY, "ray"),
        (SUMMARIES, "webhdfs://elsewhere/reports"),
        ("mapreduce.manifest.committer.summary.report.directory", "hdfs://elsewhere/reports"),
    ],
)
def test_a_write_chooses_neither_the_cluster_nor_where_reports_go(
    spark, configure, rows: DataFrame, tmp_path: Path, key: str, value: str
):
    configure(command=COMMAND)
    with pytest.raises(Exception, match=f"{key}: this session or write has set it"):
        by_option(spark, rows, str(tmp_path / "t"), key, value)
    assert data_files(tmp_path / "t") == set()


@pytest.mark.one_spark
def test_where_credentials_go_is_not_taken_from_a_session(spark, installation, tmp_path: Path):
    driver = spark.sparkContext._jsc.hadoopConfiguration()
    own = {"fs.s3a.access.key": "me", "fs.s3a.secret.key": PSSST}
    for key, value in own.items():
        driver.set(key, value)
    provider = {PROVIDER_PATH: f"jceks://file{tmp_path}/of-others.jceks"}
    try:
        for given in ({"fs.s3a.endpoint": "http://elsewhere"}, provider):
            with of_session(spark, given), pytest.raises(SettingsError, match=next(iter(given))):
                storage_options("s3a://bucket/t", session_configuration(spark))
        with of_session(spark, {"fs.s3a.access.key": "you", "fs.s3a.secret.key": "${fs.s3a.endpoint}"}):
            found = storage_options("s3a://bucket/t", session_configuration(spark))
        assert (found["key"], found["secret"]) == ("you", "${fs.s3a.endpoint}")
    finally:
        for key in own:
            driver.unset(key)


@pytest.mark.one_spark
@pytest.mark.parametrize("handler", ["python", "child"])
@pytest.mark.parametrize("key", ["spark.ray_committer.retry_seconds", MODE_KEY])
def test_a_variable_in_a_writes_option_shows_no_secret_of_the_driver(
    spark, configure, rows: DataFrame, tmp_path: Path, handler: str, key: str
):
    configure({"command": COMMAND} if handler == "child" else {})
    if handler == "python":
        install(spark)
    driver = spark.sparkContext._jsc.hadoopConfiguration()
    driver.set("fs.s3a.secret.key", PSSST)
    try:
        with pytest.raises(Exception, match=r"\$\{fs\.s3a\.secret\.key\}") as caught:
            by_option(spark, rows, str(tmp_path / "t"), key, "${fs.s3a.secret.key}")
    finally:
        driver.unset("fs.s3a.secret.key")
    assert PSSST not in str(caught.value)
