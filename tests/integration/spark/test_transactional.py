"""`write_transactional` in Spark 3.5 and 4: each row once, or nothing, read back by Spark."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from ray_committer import CommitOptions, Outcome
from ray_committer.writers import job as arrow_job
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import WriteMode
from ray_committer.writers.spark_arrow import RESULT, WriteTask, write_transactional, written_task
from tests.integration.spark.conftest import data_files, fail_task

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # Spark 3.5's own, when it looks at the version of PyArrow.
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
]

ODD = ["plain", "a b", "50%", "x:y=z", "日本 é", None, "a/b", "😀\"'", "{[^]}?*#\\", "a+b,c"]


@pytest.fixture
def odd(spark: SparkSession) -> DataFrame:
    """100 rows over three tasks, with a partition of every kind of text, null included."""
    rows = [(number, ODD[number % len(ODD)], f"{number}\n,'\"") for number in range(100)]
    return spark.createDataFrame(rows, "id long, p string, text string").repartition(3, "id")


def texts(frame: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(), sort_keys=True, default=str) for row in frame.collect())


def directories(dest: Path) -> set[str]:
    return {str(Path(name).parent) for name in data_files(dest)}


@pytest.mark.parametrize(
    "file_format", ["parquet", *(pytest.param(one, marks=pytest.mark.wide) for one in ("csv", "json"))]
)
def test_odd_partitions_are_read_back_equal_by_spark_and_by_pyarrow(
    spark: SparkSession, odd: DataFrame, tmp_path: Path, file_format: str
):
    ours, theirs = tmp_path / "ours é %", tmp_path / "theirs"
    report = write_transactional(odd, str(ours), format=file_format, partition_by=["p"])
    assert report is not None
    assert (report.outcome, report.manifests) == (Outcome.COMMITTED, 3)
    odd.write.partitionBy("p").format(file_format).save(str(theirs))
    assert directories(ours) == directories(theirs)
    read = spark.read.schema("id long, text string, p string").options(header=True, multiLine=True)
    options = {"escape": '"'} if file_format == "csv" else {}
    if file_format == "json":
        read = spark.read.schema("id long, text string, p string")
    found = read.options(**options).format(file_format).load(str(ours))
    assert texts(found) == texts(odd.select("id", "text", "p"))
    table = pyarrow.dataset.dataset(ours, format=file_format, partitioning="hive").to_table()
    assert sorted((row["id"], row["p"]) for row in table.to_pylist()) == [
        (number, ODD[number % len(ODD)]) for number in range(100)
    ]
    assert not (ours / "_temporary").exists()


def test_types_and_partitions_of_many_types_are_read_as_spark_reads_its_own(
    spark: SparkSession, tmp_path: Path
):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 120000)
    rows = [
        (1, True, 0.1, decimal.Decimal("1.50"), datetime.date(2024, 2, 29), moment, [1, None], b"\0"),
        (2, None, None, None, None, None, None, None),
    ]
    schema = (
        "id long, b boolean, f double, d decimal(9,2), day date, t timestamp, l array<int>, x binary"
    )
    frame = spark.createDataFrame(rows, schema)
    columns = ["b", "f", "d", "day", "t"]
    copied = frame.select("*", *(frame[column].alias(f"by_{column}") for column in columns))
    by = [f"by_{column}" for column in columns]
    write_transactional(copied, str(ours), partition_by=by)
    copied.write.partitionBy(*by).parquet(str(theirs))
    assert directories(ours) == directories(theirs)
    ours_read, theirs_read = (spark.read.parquet(str(root)) for root in (ours, theirs))
    assert ours_read.schema == theirs_read.schema
    assert sorted(map(repr, ours_read.collect())) == sorted(map(repr, theirs_read.collect()))


def test_a_task_that_fails_for_good_keeps_the_old_data(spark, rows: DataFrame, tmp_path: Path):
    dest = tmp_path / "t"
    write_transactional(rows, str(dest), partition_by="p")
    before = data_files(dest)
    fail = fail_task(str(tmp_path / "ran"), times=9)
    with pytest.raises(Exception, match="simulated failure of a task"):
        write_transactional(rows.select(fail("id").alias("id")), str(dest), mode="overwrite")
    assert data_files(dest) == before
    assert not (dest / "_temporary").exists()


def test_of_two_attempts_that_commit_one_counts(spark, rows: DataFrame, tmp_path: Path):
    dest = tmp_path / "t"
    layout = FileLayout("parquet", ("p",))
    job = arrow_job.start(str(dest), layout, mode=WriteMode.APPEND, options=CommitOptions())

    def twice(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        yield from list(WriteTask(job)(kept))
        list(WriteTask(job)(kept))

    found = rows.mapInArrow(twice, RESULT).collect()
    results = [written_task(row) for row in found]
    assert len(list((dest / "_temporary" / job.job_id / "00" / "manifests").iterdir())) == 6
    assert arrow_job.commit(job, results, executor="threads").manifests == 3
    assert texts(spark.read.parquet(str(dest))) == texts(rows)


def test_mode_ignore_runs_no_task_if_there_is_data(spark, rows: DataFrame, tmp_path: Path):
    dest = str(tmp_path / "t")
    assert write_transactional(rows, dest, mode="ignore") is not None
    ran = fail_task(str(tmp_path / "ran"), times=0)
    assert write_transactional(rows.select(ran("id").alias("id")), dest, mode="ignore") is None
    assert list(tmp_path.glob("ran-*")) == []
    assert spark.read.parquet(dest).count() == 600


def test_a_table_can_be_overwritten_with_what_is_read_from_it(spark, rows: DataFrame, tmp_path: Path):
    dest = str(tmp_path / "t")
    write_transactional(rows, dest)
    write_transactional(spark.read.parquet(dest).where("id < 10"), dest, mode="overwrite")
    assert spark.read.parquet(dest).count() == 10


@pytest.mark.parametrize("nothing", ["no rows", "no tasks"])
def test_without_rows_readers_still_find_the_columns(
    spark, rows: DataFrame, tmp_path: Path, nothing: str
):
    dest = tmp_path / "t"
    write_transactional(rows, str(dest))
    empty = rows.where("id < 0") if nothing == "no rows" else rows.where(lit(False))
    report = write_transactional(empty, str(dest), mode="overwrite")
    assert report is not None
    assert report.files == 1
    assert spark.read.parquet(str(dest)).count() == 0
    assert sorted(spark.read.parquet(str(dest)).columns) == ["id", "p", "text"]
    write_transactional(empty, str(tmp_path / "p"), partition_by="p")
    assert [path.name for path in (tmp_path / "p").glob("[!.]*")] == ["_SUCCESS"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"format": "orc"}, "format 'orc': is not one of"),
        ({"partition_by": ["q"]}, "partition column 'q': is not one of"),
        ({"partition_by": ["id", "p", "text"]}, "leaves no column"),
        ({"mode": "keep"}, "mode 'keep': is not one of"),
        ({"mode": "overwrite_partitions"}, "needs partition_by"),
        ({"format_options": {"sep": ";"}}, "sep"),
    ],
)
def test_what_cannot_be_is_refused_before_any_task(
    rows: DataFrame, tmp_path: Path, arguments: dict[str, Any], what: str
):
    ran = fail_task(str(tmp_path / "ran"), times=0)
    with pytest.raises(ValueError, match=what):
        write_transactional(rows.withColumn("id", ran("id")), str(tmp_path / "t"), **arguments)
    assert list(tmp_path.iterdir()) == []
