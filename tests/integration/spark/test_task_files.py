"""Where a task's files lie until the job's commit, and what its manifest says of them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from tests.integration.spark.tasks import Task, set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

EXAMPLES = Path(__file__).parents[2] / "data" / "hidden_names.json"


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


def test_java_passes_over_the_same_names_as_python(task: Task):
    names = task.jvm.io.raycommitter.HiddenNames
    examples = json.loads(EXAMPLES.read_text())
    found = [
        {
            "path": (path := example["path"]),
            "has_rows": not names.isHidden(path),
            "is_output": not names.isPassedOver(path),
            "is_of_file_system": names.isOfFileSystem(path.rpartition("/")[2]),
        }
        for example in examples
    ]
    assert found == examples


def test_what_is_no_output_is_passed_over_and_the_commit_names_it(task: Task):
    begun, asked = task.begin_file("p=1"), task.begin_file(None, "_asked-")
    begun.write_text("x")
    asked.write_text("y")
    for name in (".nfs0001", ".fuse_hidden2", "a._COPYING_", "_other", ".zfs/a", "p=2/.smbdelete3"):
        place = task.attempt / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("z")
    os.mkfifo(task.attempt / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(task.attempt)  # the path of a socket is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    name = begun.name.partition("-")[2]
    assert set(task.commit().values()) == {f"{task.dest}/p=1/{name}", f"{task.dest}/{asked.name}"}
    passed = [".fuse_hidden2", ".nfs0001", ".zfs", "_other", "a._COPYING_", "fifo", "p=2/.smbdelete3"]
    expected = {"number": 8, "names": [*passed, "socket"]}
    assert json.loads(task.manifest()["extraData"]["ray_committer.passed_over"]) == expected
    report = ray_committer.commit_job(str(task.dest), options=CommitOptions(expected_tasks=1))
    (notice,) = report.notices
    assert " | ".join(expected["names"]) in notice
    assert not (task.dest / "_temporary").exists()


def test_hidden_names_in_a_directory_that_a_task_has_asked_for_are_output(task: Task):
    """As of a format whose file is a directory."""
    directory = task.begin_file("p=1")
    directory.mkdir()
    for name in (".zgroup", "_x", ".nfs0001"):
        (directory / name).write_text("x")
    found = {Path(path).name for path in task.commit().values()}
    assert found == {".zgroup", "_x"}


def test_a_fifo_in_the_place_of_a_file_is_missing(task: Task):
    os.mkfifo(task.begin_file("p=1"))
    with pytest.raises(Py4JJavaError, match="files that the task began are missing"):
        task.save()


@pytest.mark.parametrize("is_driver", [True, False])
def test_no_name_of_a_file_or_directory_may_be_one_that_a_jvm_does_not_find(
    spark: SparkSession, installation, tmp_path: Path, request: pytest.FixtureRequest, is_driver: bool
):
    before = None if is_driver else set_up(spark, tmp_path / "table")
    request.getfixturevalue("not_utf8")
    job = before or set_up(spark, tmp_path / "table")
    task = job.task()
    if is_driver:
        spark._jvm.System.setProperty("sun.jnu.encoding", "UTF-8")
    for begin in (
        lambda: task.begin_file("p=\u00e9"),
        lambda: task.begin_file("p=1", "\u00e9"),
        lambda: task.begin_file(None, "\u0660"),
        lambda: task.begin_file_at(tmp_path / "caf\u00e9"),
    ):
        with pytest.raises(Py4JJavaError, match="names of files are not UTF-8 in th"):
            begin()
    assert task.begin_file("p=1").parent == task.attempt
    if not is_driver:
        with pytest.raises(
            Py4JJavaError, match="caf\u00e9: names of files are not UTF-8 in the driver's JVM"
        ):
            set_up(spark, tmp_path / "caf\u00e9")
