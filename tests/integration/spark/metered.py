"""Spark sessions whose requests to the store are counted, and take time, in the driver and in tasks."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))


def metered_conf() -> dict[str, str]:
    """The settings that put the file system that counts in the place of ``file:``."""
    return {
        "spark.driver.extraClassPath": str(compiled()),
        "spark.extraListeners": "LastTask",
        "spark.hadoop.fs.file.impl": "MeteredFileSystem",
    }


@cache
def compiled() -> Path:
    """The Java classes of these tests, compiled once per process; their directory ends with it."""
    directory = Path(tempfile.mkdtemp(prefix="classes-"))
    atexit.register(shutil.rmtree, directory)
    compile_java(directory, *_SOURCES)
    return directory


def compile_java(directory: Path, *sources: Path) -> None:
    """Compile classes that need Spark's into a directory."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(directory), *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


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
