"""Spark sessions whose requests to the store are counted, and take time, in the driver and in tasks."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))


def metered_conf(directory: Path) -> dict[str, str]:
    """Compile the file system into `directory`; the settings that put it in the place of ``file:``."""
    return {
        "spark.driver.extraClassPath": str(compiled(directory)),
        "spark.extraListeners": "LastTask",
        "spark.hadoop.fs.file.impl": "MeteredFileSystem",
    }


def compiled(directory: Path) -> Path:
    """Compile the Java classes of these tests into `directory`."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(directory), *map(str, _SOURCES)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return directory


def load_classes(spark: SparkSession, directory: Path) -> None:
    """Compile the Java classes of these tests, for the driver and for tasks in its process."""
    url = spark._jvm.java.io.File(str(compiled(directory))).toURI().toURL()
    spark._jvm.Thread.currentThread().getContextClassLoader().addURL(url)


def reset_counts(spark: SparkSession, *, millis: int = 0) -> None:
    """Count from here on; each request now takes `millis`."""
    _wait_for_listeners(spark)
    spark._jvm.MeteredFileSystem.reset(millis)
    spark._jvm.LastTask.reset()


def last_task_ended(spark: SparkSession) -> float:
    """When the last task ended, in seconds of the epoch."""
    _wait_for_listeners(spark)
    return spark._jvm.LastTask.endedAtMillis() / 1000


def counts(spark: SparkSession) -> Counter[tuple[str, str, str]]:
    """Requests since the last reset by who made them, what they were, and of what."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in spark._jvm.MeteredFileSystem.counts().splitlines():
        what, _, number = line.partition(": ")
        who, operation, kind = what.split(" ")
        found[who, operation, kind] = int(number)
    return found


def written(spark: SparkSession) -> list[int]:
    """Bytes and records that tasks wrote since the last reset, as Spark's UI shows them."""
    _wait_for_listeners(spark)
    return list(spark._jvm.LastTask.written())


def _wait_for_listeners(spark: SparkSession) -> None:
    spark._jsc.sc().listenerBus().waitUntilEmpty()
