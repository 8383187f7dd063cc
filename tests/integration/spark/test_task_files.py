"""Where a task's files lie until the job's commit, and what its manifest says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.integration.spark.tasks import Task, set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def task(installation, spark: SparkSession, tmp_path: Path) -> Task:
    return set_up(spark, tmp_path / "table").task()


def test_files_of_all_partitions_lie_side_by_side(task: Task):
    partitions = ("p=1/q=a%3Ab", "p=2/q=x")
    begun = [task.begin_file(partition) for partition in partitions]
    for path in begun:
        assert path.parent == task.attempt
        path.write_text("x")
    (name,) = {path.name.partition("-")[2] for path in begun}  # Spark gives both the same
    assert name.startswith("part-00003")
    assert name.endswith(".txt")
    assert task.commit() == {
        str(path): f"{task.dest}/{partition}/{name}"
        for path, partition in zip(begun, partitions, strict=True)
    }
    assert task.directories() == {f"{task.dest}/{partition}": 2 for partition in partitions}


def test_a_file_for_a_location_outside_of_the_table(task: Task, tmp_path: Path):
    begun = task.begin_file_at(tmp_path / "elsewhere")
    assert begun.parent == task.attempt
    begun.write_text("x")
    assert task.commit() == {str(begun): f"{tmp_path}/elsewhere/{begun.name.partition('-')[2]}"}
    assert task.directories().keys() == {f"{tmp_path}/elsewhere"}


def test_what_was_not_announced_keeps_its_place(task: Task):
    task.begin_file("p=1").write_text("x")
    extra = task.attempt / "p=9" / "deeper" / "a:b.side"
    extra.parent.mkdir(parents=True)
    extra.write_text("y")
    (task.attempt / "0").write_text("z")
    (task.attempt / ".0-part-00003.txt.crc").write_text("a checksum of Hadoop's, which stays")
    found = task.commit()
    assert found[str(extra)] == f"{task.dest}/p=9/deeper/a:b.side"
    assert found[str(task.attempt / "0")] == f"{task.dest}/0"
    assert len(found) == 3
    assert task.directories() == {
        f"{task.dest}/p=1": 1,
        f"{task.dest}/p=9": 1,
        f"{task.dest}/p=9/deeper": 2,
    }


def test_what_a_writer_leaves_beside_its_file_goes_with_that(task: Task):
    begun = task.begin_file("p=1/q=a%3Ab")
    begun.write_text("x")
    beside = begun.with_name(begun.name + ".idx")
    beside.write_text("its index")
    name = begun.name.partition("-")[2]
    assert task.commit() == {
        str(begun): f"{task.dest}/p=1/q=a%3Ab/{name}",
        str(beside): f"{task.dest}/p=1/q=a%3Ab/{name}.idx",
    }


def test_a_writer_may_make_a_directory_of_its_file(task: Task):
    begun = task.begin_file("p=1")
    (begun / "deeper").mkdir(parents=True)
    (begun / "deeper" / "x").write_text("x")
    name = begun.name.partition("-")[2]
    assert task.commit() == {str(begun / "deeper" / "x"): f"{task.dest}/p=1/{name}/deeper/x"}
    assert task.directories() == {
        f"{task.dest}/p=1": 1,
        f"{task.dest}/p=1/{name}": 2,
        f"{task.dest}/p=1/{name}/deeper": 3,
    }


def test_a_file_that_was_begun_and_is_gone_fails_the_task(task: Task):
    task.begin_file("p=1").write_text("x")
    lost = task.begin_file("p=2")
    with pytest.raises(Py4JJavaError, match="files that the task began are missing") as caught:
        task.commit()
    assert str(task.attempt) in str(caught.value)
    assert lost.name in str(caught.value)
    assert "spark.ray_committer.commit=spark" in str(caught.value)
    assert not list(task.attempt.parents[1].glob("manifests/*"))
