"""Spark's tasks with our jar, Hadoop's job commit: their files lie where all tasks write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ray_committer.spark import install, uninstall
from tests.integration.hadoop.conftest import HadoopJob, read_tree
from tests.integration.spark.tasks import JOB_ID, set_up

pytestmark = [pytest.mark.hadoop, pytest.mark.xdist_group("hadoop")]

VALIDATE = {"mapreduce.manifest.committer.validate.output": "true"}
PARTITIONS = ("p=1", "p=a%3Ab é/q=2", None, *(f"r={number}" for number in range(40)))


def test_java_commits_and_validates_what_sparks_tasks_wrote(spark: SparkSession, tmp_path: Path):
    dest = tmp_path / "table öne"
    install(spark)
    try:
        job = set_up(spark, dest)
        expected: dict[str, bytes] = {}
        for number in range(2):
            task = job.task(number)
            for partition in PARTITIONS:
                path = task.begin_file(partition)
                path.write_bytes(str(path).encode())
                name = path.name if path.parent != task.attempt else path.name.partition("-")[2]
                expected[f"{partition}/{name}" if partition else name] = path.read_bytes()
            task.save()
        assert len(expected) == 2 * len(PARTITIONS)
        HadoopJob(spark._jvm, dest, uuid=JOB_ID, options=VALIDATE).commit_job()
    finally:
        uninstall(spark)
    found = {name: data for name, data in read_tree(dest).items() if data is not None}
    assert found.pop("_SUCCESS")
    assert found == expected
    assert not (dest / "_temporary").exists()
