"""`df.write.format("ray_committer")` in Spark 4, whose commit runs in a process that Spark starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer.cli.main import main
from tests.integration.spark.conftest import a_file_appears_after_the_record, data_files
from tests.integration.spark.test_spark_writes import fail_task, texts
from tests.integration.spark.test_transactional import ODD

IS_SPARK_4 = int(pyspark.__version__.partition(".")[0]) >= 4
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-data-source")]
needs_spark_4 = pytest.mark.skipif(not IS_SPARK_4, reason="Python data sources need Spark 4")

Save = Callable[..., None]


@pytest.fixture
def save(spark: SparkSession) -> Save:
    from ray_committer.writers.spark_data_source import RayCommitterDataSource

    spark.dataSource.register(RayCommitterDataSource)

    def save(frame: DataFrame, dest: Path, *, mode: str = "append", **options: Any) -> None:
        frame.write.format("ray_committer").options(**options).mode(mode).save(str(dest))

    return save


@pytest.mark.skipif(IS_SPARK_4, reason="is about older versions")
def test_an_older_spark_is_told_what_to_use():
    with pytest.raises(ImportError, match=r"need Spark 4; with an older Spark, use .*transactional"):
        import ray_committer.writers.spark_data_source  # noqa: F401


@needs_spark_4
@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_rows_and_odd_partitions_are_read_back_equal(
    spark: SparkSession, save: Save, tmp_path: Path, file_format: str
):
    values = [(number, ODD[number % len(ODD)], number % 2 == 0) for number in range(60)]
    frame = spark.createDataFrame(values, "id long, p string, q boolean").repartition(3, "id")
    dest = tmp_path / "t"
    save(frame, dest, format=file_format, partition_by="p, q")
    read = spark.read.schema("id long, p string, q boolean").format(file_format)
    assert texts(read.load(str(dest))) == texts(frame)
    frame.write.partitionBy("p", "q").parquet(str(tmp_path / "theirs"))
    ours, theirs = (
        {str(Path(name).parent) for name in data_files(root)} for root in (dest, tmp_path / "theirs")
    )
    assert ours == theirs
    assert json.loads((dest / "_SUCCESS").read_bytes())["committer"] == "ray_committer"
    assert not (dest / "_temporary").exists()


@needs_spark_4
def test_append_is_beside_and_overwrite_in_the_place_of_what_was_there(
    spark, save: Save, rows: DataFrame, tmp_path: Path
):
    dest = tmp_path / "t"
    for mode, count in (("append", 600), ("append", 1200), ("overwrite", 600)):
        save(rows, dest, mode=mode)
        assert spark.read.parquet(str(dest)).count() == count
    save(rows.where("id < 0"), dest, mode="overwrite")
    assert spark.read.parquet(str(dest)).count() == 0


@needs_spark_4
def test_a_retried_task_is_counted_once(spark, save: Save, rows: DataFrame, tmp_path: Path):
    fail = fail_task(str(tmp_path / "ran"), times=1)
    save(rows.withColumn("id", fail("id")), tmp_path / "t")
    assert (tmp_path / "ran-0-1").exists()
    assert texts(spark.read.parquet(str(tmp_path / "t"))) == texts(rows)


@needs_spark_4
@pytest.mark.parametrize("tasks", [3, 1], ids=["one of three", "the only one"])
def test_a_task_that_fails_for_good_keeps_what_was_there(
    spark, save: Save, rows: DataFrame, tmp_path: Path, tasks: int
):
    dest = tmp_path / "t"
    save(rows, dest)
    before = data_files(dest)
    fail = fail_task(str(tmp_path / "ran"), times=9)
    with pytest.raises(Exception, match="simulated failure of a task"):
        save(rows.coalesce(tasks).withColumn("id", fail("id")), dest, mode="overwrite")
    assert data_files(dest) == before
    assert not (dest / "_temporary").exists()


@needs_spark_4
def test_of_two_attempts_that_commit_one_counts(spark, rows: DataFrame, tmp_path: Path):
    from ray_committer.writers.spark_data_source import ManifestWriter, RayCommitterDataSource

    class CommitsTwice(ManifestWriter):
        def write(self, iterator):
            kept = list(iterator)
            result = super().write(kept)
            super().write(kept)
            return result

    class Source(RayCommitterDataSource):
        @classmethod
        def name(cls):
            return "twice"

        def writer(self, schema, overwrite):
            writer = super().writer(schema, overwrite)
            return CommitsTwice(writer.job, writer.ray_address)

    spark.dataSource.register(Source)
    rows.write.format("twice").mode("append").save(str(tmp_path / "t"))
    assert texts(spark.read.parquet(str(tmp_path / "t"))) == texts(rows)
    assert not (tmp_path / "t" / "_temporary").exists()


@needs_spark_4
def test_a_commit_that_stopped_in_the_middle_keeps_all_and_the_command_finishes_it(
    spark, rows: DataFrame, tmp_path: Path
):
    from ray_committer.writers.spark_data_source import ManifestWriter, RayCommitterDataSource

    dest = tmp_path / "t"

    class Blocked(ManifestWriter):
        def commit(self, messages):
            with a_file_appears_after_the_record(dest / "p=1"):
                super().commit(messages)

    class Source(RayCommitterDataSource):
        @classmethod
        def name(cls):
            return "blocked"

        def writer(self, schema, overwrite):
            writer = super().writer(schema, overwrite)
            return Blocked(writer.job, writer.ray_address)

    spark.dataSource.register(Source)
    write = rows.write.format("blocked").option("partition_by", "p").mode("append")
    with pytest.raises(Exception, match="p=1: is a file where the job needs a directory"):
        write.save(str(dest))
    (job,) = ray_committer.list_jobs(str(dest))
    assert (job.state, job.manifests) == ("recorded", 3)
    (dest / "p=1").unlink()
    result = CliRunner().invoke(main, ["commit", str(dest)])
    assert result.exit_code == 0, result.output
    assert spark.read.parquet(str(dest)).count() == 600


@needs_spark_4
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"format": "orc"}, "format 'orc': is not one of"),
        ({"partition_by": "q"}, "partition column 'q': is not one of"),
        ({"partitionby": "p"}, "option 'partitionby': is not one of"),
        ({"format_options": "zstd"}, "option 'format_options': is not JSON"),
        ({"format_options": '{"compression": "best"}'}, "(?i)best"),
        ({"storage_options": "[]"}, "option 'storage_options': is JSON, but not an object"),
    ],
)
def test_what_cannot_be_is_refused_before_any_task(
    save: Save, rows: DataFrame, tmp_path: Path, options: dict[str, str], what: str
):
    ran = fail_task(str(tmp_path / "ran"), times=0)
    with pytest.raises(Exception, match=what):
        save(rows.withColumn("id", ran("id")), tmp_path / "t", **options)
    assert list(tmp_path.iterdir()) == []


@needs_spark_4
@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_other_modes_and_partition_by_of_spark_are_refused_by_spark(
    save: Save, rows: DataFrame, tmp_path: Path, mode: str
):
    with pytest.raises(Exception, match=r"(?i)mode"):
        save(rows, tmp_path / "t", mode=mode)
    writer = rows.write.format("ray_committer").mode("append").partitionBy("p")
    with pytest.raises(Exception, match=r"(?i)partition"):
        writer.save(str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


@needs_spark_4
@pytest.mark.ray
def test_the_commit_joins_the_ray_cluster_of_the_address(
    spark, save: Save, rows: DataFrame, tmp_path: Path
):
    import ray

    dest = tmp_path / "t"
    context = ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        save(rows, dest, partition_by="p", ray_address=context.address_info["gcs_address"])
    finally:
        ray.shutdown()
    assert spark.read.parquet(str(dest)).count() == 600
    success = json.loads((dest / "_SUCCESS").read_bytes())
    assert success["diagnostics"]["executor"] == "ray"


@needs_spark_4
def test_an_address_where_no_cluster_answers_is_named_and_nothing_is_left(
    save: Save, rows: DataFrame, tmp_path: Path
):
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1: no Ray cluster answers there"):
        save(rows, tmp_path / "t", ray_address="127.0.0.1:1")
    assert data_files(tmp_path / "t") == set()
