"""The two faults of version 2 of Hadoop's FileOutputCommitter, which moves files when a task commits.

The same writes, with the same settings, are committed by it and by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.integration.spark.conftest import data_files
from tests.integration.spark.lessons import installed
from tests.integration.spark.metered import load_classes

pytestmark = [
    pytest.mark.wide,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
]

VERSION_2 = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_spark_33019_a_job_that_fails_leaves_what_was_there_byte_for_byte(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, mode: str
):
    """The files of the tasks that committed were visible, beside or in the place of the old ones."""

    def write_and_fail(dest: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
        rows.write.partitionBy("p").parquet(str(dest))
        before = contents(dest)
        failing = rows.select(fail_in_the_last_task()("id").alias("id"), "p")
        with pytest.raises(Exception, match="simulated failure of a task"):
            failing.write.options(**VERSION_2).mode(mode).partitionBy("p").parquet(str(dest))
        return before, contents(dest)

    before, after = write_and_fail(tmp_path / "theirs")
    assert after.keys() - before.keys(), "no task had committed"
    assert (before.keys() <= after.keys()) is (mode == "append")
    with installed(spark):
        before, after = write_and_fail(tmp_path / "ours")
    assert after == before


def test_mapreduce_7282_an_attempt_that_dies_in_the_middle_of_its_commit_leaves_no_row_twice(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
):
    """The next attempt did not replace what the one before it had moved, where its names differ."""
    load_classes(spark)

    def write(dest: Path) -> list[int]:
        marker = dest.with_name(f"{dest.name}-torn")
        loaded = rows.select("id", "p", when_loaded()("id").alias("loaded"))
        writer = loaded.write.options(**VERSION_2, **torn_once(marker))
        writer.partitionBy("loaded", "p").parquet(str(dest))
        assert marker.exists(), "no task commit was torn"
        found = spark.read.parquet(str(dest))
        assert {row["loaded"] for row in found.collect()} == {"attempt 0", "attempt 1"}
        return sorted(row["id"] for row in found.collect())

    theirs = write(tmp_path / "theirs")
    assert len(theirs) > len(set(theirs)) == 600
    with installed(spark):
        assert write(tmp_path / "ours") == list(range(600))


def contents(dest: Path) -> dict[str, bytes]:
    return {name: (dest / name).read_bytes() for name in data_files(dest)}


def torn_once(marker: Path) -> Mapping[str, str]:
    """Settings of a write for which one task attempt dies after the first rename of its commit."""
    return {
        "fs.file.impl": "TornFileSystem",
        "fs.file.impl.disable.cache": "true",
        "torn.marker": str(marker),
    }


def fail_in_the_last_task() -> Any:
    """Of three tasks on two cores, the last begins when another has ended."""

    @udf("long")
    def fail(value):
        if TaskContext.get().partitionId() == 2:
            raise RuntimeError("simulated failure of a task")
        return value

    return fail


def when_loaded() -> Any:
    """The time at which a task loads a row, which is another one in its next attempt."""

    @udf("string")
    def when(value):
        return f"attempt {TaskContext.get().attemptNumber()}"

    return when
