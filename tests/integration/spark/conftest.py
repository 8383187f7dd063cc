"""What the tests with Spark share; they run with Spark 3.5 and with Spark 4."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from ray_committer.spark import Installation, install, uninstall
from ray_committer.spark.session import bridge


@pytest.fixture
def installation(spark: SparkSession) -> Iterator[Installation]:
    """This session's writes are committed by us, in threads."""
    yield install(spark)
    uninstall(spark)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """600 rows over three tasks; `p` has four values, `text` every kind of character."""
    odd = "element_at(array('plain', 'a b%/é日本', '😀\"''q', 'x:y=z'), int(id % 4) + 1)"
    return spark.range(600).selectExpr("id", "id % 4 AS p", f"{odd} AS text").repartition(3, "id")


@pytest.fixture
def configure(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Set ``spark.ray_committer.*`` of this driver, where nobody has installed a handler."""
    keys: list[str] = []
    driver = spark.sparkContext._jsc.hadoopConfiguration()

    def apply(settings: Mapping[str, str] = {}, **more: str) -> None:
        for name, value in {**settings, **more}.items():
            keys.append(f"spark.ray_committer.{name}")
            driver.set(keys[-1], value)
            spark.conf.set(keys[-1], value)  # `install` has set some of them for the session

    installation = install(spark)
    bridge(spark).removeHandler(installation.token)
    yield apply
    for key in keys:
        driver.unset(key)
        spark.conf.unset(key)
    uninstall(spark)


@pytest.fixture
def not_utf8(spark: SparkSession) -> Iterator[None]:
    """As in a JVM that was started with LC_ALL=POSIX."""
    system: Any = spark._jvm.System
    own = system.setProperty("sun.jnu.encoding", "ANSI_X3.4-1968")
    yield
    system.setProperty("sun.jnu.encoding", own)


def data_files(dest: Path) -> set[str]:
    """The data files below a destination, by relative name, also while jobs are at work there."""
    found = set()
    for parent, directories, names in os.walk(dest):
        directories[:] = [name for name in directories if name != "_temporary"]
        found |= {str(Path(parent, name).relative_to(dest)) for name in names if name[0] not in "._"}
    return found


def fail_task(marker: str, *, times: int) -> object:
    """A column function that fails the first `times` attempts of the task of partition 0."""

    @udf("long")
    def fail(value):
        context = TaskContext.get()
        Path(f"{marker}-{context.partitionId()}-{context.attemptNumber()}").touch()
        if context.partitionId() == 0 and context.attemptNumber() < times:
            raise RuntimeError("simulated failure of a task")
        return value

    return fail
