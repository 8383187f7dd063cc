"""What Spark writes to a table with a log: the log names exactly the files that are there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from ray_committer import changes, history, init_table, list_jobs, snapshot
from ray_committer.spark import Installation
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import SparkSql, path_with_command

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

P = ("p=0", "p=1", "p=2", "p=3")
"""The partitions of the fixture `rows`."""
STATEMENTS = """
CREATE TABLE t (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p) LOCATION '{dest}';
INSERT INTO t SELECT id, id % 4 FROM range(30);
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE t SELECT id, 1 FROM range(7);
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    dest = tmp_path / "t"
    dest.mkdir()
    init_table(str(dest))
    return dest


def dynamic(writer: DataFrameWriter) -> DataFrameWriter:
    return writer.mode("overwrite").option("partitionOverwriteMode", "dynamic")


def appending(writer: DataFrameWriter) -> DataFrameWriter:
    return writer.mode("append")


def replayed(dest: Path) -> set[str]:
    """The files that all jobs in the log, one after the other, leave."""
    found: set[str] = set()
    for one in changes(str(dest)):
        assert found >= {file.path for file in one.removed}
        found = (found - {file.path for file in one.removed}) | {file.path for file in one.added}
    return found


def assert_log_is_the_directory(dest: Path) -> None:
    there = {name for name in data_files(dest) if not name.startswith("_ray_committer/")}
    last = snapshot(str(dest))
    assert replayed(dest) == {file.path for file in last.files()} == there
    assert list_jobs(str(dest)) == []


def test_each_write_is_in_the_log_with_its_version(
    spark: SparkSession, installation: Installation, rows: DataFrame, table: Path
):
    some = rows.where("p = 1").limit(5)
    writes: list[tuple[Callable[[DataFrameWriter], DataFrameWriter], DataFrame, int, int]] = [
        (appending, rows, 4, 600),
        (appending, some, 6, 605),
        (dynamic, some, 8, 455),
        (lambda writer: writer.mode("overwrite"), some, 11, 5),
        (appending, rows.where("id < 0"), 14, 5),
    ]
    for how, frame, version, count in writes:
        how(frame.write.partitionBy("p")).parquet(str(table))
        report = installation.last_report
        assert report is not None
        assert report.table_version == version
        assert_log_is_the_directory(table)
        assert spark.read.parquet(str(table)).count() == count
    assert [(one.claim, one.version, one.mode, one.partitions) for one in history(str(table))][1:] == [
        (3, 4, "append", P),
        (5, 6, "append", ("p=1",)),
        (7, 8, "overwrite", ("p=1",)),
        (10, 11, "overwrite", ("",)),
        (13, 14, "append", ()),
    ]


@pytest.mark.wide  # the jobs of other processes meet in tests/commits
def test_writes_at_once_are_in_one_order(
    spark: SparkSession, installation: Installation, rows: DataFrame, table: Path
):
    rows.write.partitionBy("p").mode("append").parquet(str(table))

    def write(number: int) -> None:
        how = dynamic if number % 2 else appending
        how(rows.where(f"p <= {number % 4}").write.partitionBy("p")).parquet(str(table))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(8)))
    assert_log_is_the_directory(table)
    assert len(history(str(table))) == 10


@pytest.mark.wide  # the entries are those of the command that the driver runs
@pytest.mark.one_spark
def test_a_driver_without_python_is_in_the_log_beside_one_of_python(
    installation: Installation, rows: DataFrame, table: Path, tmp_path: Path
):
    sql = SparkSql(tmp_path, PATH=path_with_command(tmp_path / "bin"))
    result = sql.run(STATEMENTS.format(dest=table), {})
    assert result.returncode == 0, result.stderr
    appending(rows.where("p = 1").write.partitionBy("p")).parquet(str(table))
    assert_log_is_the_directory(table)
    found = [(one.claim, one.version, one.mode, one.partitions) for one in history(str(table))][1:]
    assert found == [
        (3, 4, "append", P),
        (5, 6, "overwrite", ("p=1",)),
        (8, 9, "append", ("p=1",)),
    ]
