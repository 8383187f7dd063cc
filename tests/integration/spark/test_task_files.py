"""Where a task's files lie until the job's commit, and what its manifest says of them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.protocol.staging import key_of, token_in, token_of
from ray_committer.protocol.uri import Location
from tests.integration.spark.tasks import JOB_ID, Task, configuration_with, set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DATA = Path(__file__).parents[2] / "data"
FILE_SYSTEMS = ("org.apache.hadoop.fs.LocalFileSystem", "MeteredFileSystem")


@pytest.fixture
def task(installation, spark: SparkSession, tmp_path: Path) -> Task:
    return set_up(spark, tmp_path / "table").task()


def staged(task: Task, directory: Path) -> Path:
    """Where files for a directory of the output lie."""
    key = key_of(Location("file", "", str(directory)), Location("file", "", str(task.dest)))
    return task.tasks / "in" / key


def test_files_lie_beside_those_of_other_tasks_for_the_same_directory(task: Task):
    partitions = ("p=1/q=a%3Ab", "p=2/q=x")
    begun = [task.begin_file(partition) for partition in partitions]
    for path, partition in zip(begun, partitions, strict=True):
        assert path.parent == staged(task, task.dest / partition)
        path.write_text("x")
    (name,) = {path.name for path in begun}  # Spark gives both the same
    assert name == f"part-00003-{JOB_ID}-{task.token}.txt"
    assert task.commit() == {
        str(path): f"{task.dest}/{partition}/{name}"
        for path, partition in zip(begun, partitions, strict=True)
    }
    assert task.directories() == {f"{task.dest}/{partition}": 2 for partition in partitions}
    assert not task.attempt.exists()


def test_files_of_the_destination_itself_lie_in_one_of_64_directories(installation, spark, tmp_path):
    task = set_up(spark, tmp_path / "table").task(67)
    begun = task.begin_file(None)
    assert begun == task.tasks / "root" / "03" / f"part-00067-{JOB_ID}-{task.token}.txt"
    begun.write_text("x")
    assert task.commit() == {str(begun): f"{task.dest}/{begun.name}"}
    assert task.directories() == {}


def test_attempts_of_a_task_have_names_of_their_own(installation, spark, tmp_path):
    job = set_up(spark, tmp_path / "table")
    names = {job.task(3, attempt).begin_file("p=1").name for attempt in (0, 1, 10, 2**31 - 1)}
    assert len(names) == 4


def test_a_job_whose_id_ends_like_a_token_gives_no_task_the_files_of_another(
    installation, spark: SparkSession, tmp_path: Path
):
    token = token_of("attempt_1_0001_m_000003_0")
    job = set_up(spark, tmp_path / "table", job_id=f"nightly-{token}")
    for number in (4, 3):
        task = job.task(number)
        begun = task.begin_file("p=1")
        assert (begun.parent == task.attempt) is (number == 4)
        begun.write_text(f"of task {number}")
        task.save()
    report = ray_committer.commit_job(str(job.dest), options=CommitOptions(expected_tasks=2))
    assert report.files == 2
    assert {path.name[:10]: path.read_text() for path in (job.dest / "p=1").iterdir()} == {
        f"part-0000{number}": f"of task {number}" for number in (3, 4)
    }


@pytest.mark.parametrize(
    ("suffix", "end"),
    [
        ("_00003.c000.parquet", "_00003.c000.parquet"),
        ("-c001.csv", "-c001.csv"),
        (".c000.txt.gz", ".c000.txt.gz"),
        ("", ""),
        ("odd", "-odd"),
    ],
)
def test_spark_finds_what_it_looks_for_at_the_end_of_a_name(task: Task, suffix: str, end: str):
    name = task.begin_file("p=1", "", suffix).name
    assert name == f"part-00003-{JOB_ID}-{task.token}{end}"
    assert token_in(name) == task.token
    buckets = task.jvm.org.apache.spark.sql.execution.datasources.BucketingUtils
    bucket = buckets.getBucketId(name)
    assert (bucket.get() if bucket.isDefined() else None) == (3 if "_" in suffix else None)


def test_a_file_for_a_location_outside_of_the_table(task: Task, tmp_path: Path):
    begun = task.begin_file_at(tmp_path / "else where")
    assert begun.parent == staged(task, tmp_path / "else where")
    begun.write_text("x")
    assert task.commit() == {str(begun): f"{tmp_path}/else where/{begun.name}"}
    assert task.directories().keys() == {f"{tmp_path}/else where"}


def test_a_location_inside_of_the_table_is_its_directory(task: Task):
    assert task.begin_file_at(task.dest / "p=1").parent == staged(task, task.dest / "p=1")
    assert task.begin_file("p=1", "", "-c001").parent == staged(task, task.dest / "p=1")
    assert task.begin_file_at(task.dest).parent == task.tasks / "root" / "03"


def test_two_files_of_one_name_for_one_directory_are_both_kept_for_the_commit_to_refuse(task: Task):
    first, second = task.begin_file_at(task.dest / "p=1"), task.begin_file("p=1")
    assert second == task.attempt / f"0-{first.name}"
    for path in (first, second):
        path.write_text("x")
    assert set(task.commit()) == {str(first), str(second)}
    with pytest.raises(ray_committer.errors.PreflightError, match="p=1/part-00003"):
        ray_committer.commit_job(str(task.dest), options=CommitOptions(expected_tasks=1))


def test_java_stages_as_python_does(spark: SparkSession):
    examples = json.loads((DATA / "staging.json").read_text())
    jvm: Any = spark._jvm
    staging, path = jvm.io.raycommitter.Staging, jvm.org.apache.hadoop.fs.Path
    attempt = jvm.org.apache.hadoop.mapreduce.TaskAttemptID.forName(
        "attempt_202401011200333_0007_m_000007_33"
    )
    for example in examples["keys"]:
        places = [urlsplit(example[name]) for name in ("directory", "destination")]
        directory, dest = (path(one.scheme, one.netloc or None, unquote(one.path)) for one in places)
        assert staging.directoryOf(directory, dest, attempt) == f"in/{example['key']}", example
    for example in examples["names"]:
        is_own = example["token"] == "0000000700000021"
        assert staging.isOf(example["name"], staging.tokenOf(attempt)) == is_own
    for example in examples["attempts"]:
        if example["token"] is not None and len(example["task_attempt_id"].split("_")) == 6:
            attempt = jvm.org.apache.hadoop.mapreduce.TaskAttemptID.forName(example["task_attempt_id"])
            assert staging.tokenOf(attempt) == f"-{example['token']}"
            assert staging.directoryOf(path("/t"), path("/t"), attempt) == f"root/{example['root']}"


def test_what_was_not_announced_keeps_its_place(task: Task):
    task.begin_file("p=1").write_text("x")
    extra = task.attempt / "p=9" / "deeper" / "a:b.side"
    extra.parent.mkdir(parents=True)
    extra.write_text("y")
    (task.attempt / "0").write_text("z")
    for name in ("_metadata", "part-r-00007", "000007_0"):
        (task.attempt / name).write_text("named by its format")
    found = task.commit()
    assert found[str(extra)] == f"{task.dest}/p=9/deeper/a:b.side"
    assert found[str(task.attempt / "0")] == f"{task.dest}/0"
    assert found[str(task.attempt / "_metadata")] == f"{task.dest}/_metadata"
    assert len(found) == 6
    assert task.directories() == {
        f"{task.dest}/p=1": 1,
        f"{task.dest}/p=9": 1,
        f"{task.dest}/p=9/deeper": 2,
    }


@pytest.mark.parametrize("filesystem", FILE_SYSTEMS)
def test_what_a_writer_leaves_beside_its_file_goes_with_that(
    installation, spark: SparkSession, tmp_path: Path, filesystem: str
):
    task = set_up(
        spark, tmp_path / "table", configuration=configuration_with(spark, filesystem, {})
    ).task()
    begun = task.begin_file("p=1/q=a%3Ab")
    begun.write_text("x")
    beside = begun.with_name(begun.name + ".idx")
    beside.write_text("its index")
    begun.with_name(f".{begun.name}.crc").write_text("a checksum of Hadoop's, which stays")
    begun.with_name("without a token").write_text("of nobody")
    begun.with_name(f"a-{task.token[:-1]}9.txt").write_text("of another attempt")
    assert task.commit() == {
        str(begun): f"{task.dest}/p=1/q=a%3Ab/{begun.name}",
        str(beside): f"{task.dest}/p=1/q=a%3Ab/{begun.name}.idx",
    }


def test_a_task_asks_for_each_of_its_files_where_there_are_too_many_to_list(
    installation, spark: SparkSession, tmp_path: Path
):
    configuration = configuration_with(spark, "MeteredFileSystem", {})
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    begun = [task.begin_file(partition, "", f".c{n}") for partition in ("p=1", "p=2") for n in range(3)]
    for path in begun:
        path.write_text("x")
    for number in range(1000 - 3 - 1):
        begun[0].with_name(f"{number}").touch()
    fs = task.jvm.org.apache.hadoop.fs.Path(str(task.dest)).getFileSystem(configuration)
    for requests in ({"status": 0, "list": 3}, {"status": 3, "list": 3}):
        fs.reset(0)
        task.committer.commitTask(task.context)
        files = {entry["s"].removeprefix("file://") for entry in task.manifest()["files"]}
        assert files == {str(path) for path in begun}
        lines = [line.split() for line in fs.counts().splitlines()]
        found = {
            name: sum(int(n) for _, operation, kind, n in lines if (operation, kind) in kinds)
            for name, kinds in {"status": [("status", "data:")], "list": [("list", "job:")]}.items()
        }
        assert found == requests
        begun[0].with_name("999").touch()


def test_a_task_of_many_files_looks_further_for_what_lies_beside_them(
    installation, spark: SparkSession, tmp_path: Path
):
    configuration = configuration_with(spark, "MeteredFileSystem", {})
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    begun = [task.begin_file("p=1", "", f".c{number}") for number in range(16)]
    for path in begun:
        path.write_text("x")
    beside = begun[0].with_name(begun[0].name + ".idx")
    beside.write_text("its index")
    for number in range(2000 - 16 - 1 - 1):
        beside.with_name(f"{number}").touch()
    assert task.commit().keys() == {*map(str, begun), str(beside)}


def test_what_lies_beside_a_file_among_too_many_to_list_stops_the_commit(
    installation, spark: SparkSession, tmp_path: Path
):
    configuration = configuration_with(spark, "MeteredFileSystem", {})
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    begun = task.begin_file("p=1")
    begun.write_text("x")
    beside = begun.with_name(begun.name + ".idx")
    beside.write_text("its index")
    for number in range(1000):
        begun.with_name(f"{number}").touch()
    assert task.commit().keys() == {str(begun)}
    with pytest.raises(ray_committer.errors.IncompleteJobError, match=beside.name):
        ray_committer.commit_job(str(task.dest), options=CommitOptions(expected_tasks=1))
    assert [path.read_text() for path in (task.dest / "_temporary").rglob(beside.name)] == ["its index"]
    assert not (task.dest / "p=1").exists()


@pytest.mark.parametrize("umask", ["022", "027"])
@pytest.mark.parametrize("above", [0o755, 0o2755])
def test_a_task_makes_a_local_directory_with_the_mode_that_hadoop_gives_it(
    installation, spark: SparkSession, tmp_path: Path, umask: str, above: int
):
    jvm: Any = spark._jvm
    settings = {"fs.permissions.umask-mode": umask}
    configuration = configuration_with(spark, FILE_SYSTEMS[0], settings)
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    shared = staged(task, task.dest / "p=1").parent
    shared.chmod(above)
    begun = task.begin_file("p=1")
    other = shared / "by-hadoop"
    path = jvm.org.apache.hadoop.fs.Path(str(other))
    assert path.getFileSystem(configuration).mkdirs(path)
    assert oct(begun.parent.stat().st_mode) == oct(other.stat().st_mode)


def test_at_most_4096_directories_are_shared(installation, spark: SparkSession, tmp_path: Path):
    configuration = configuration_with(spark, "MeteredFileSystem", {})
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    for number in range(4096):
        task.protocol.newTaskTempFile(*task.arguments(f"p={number}"))
    assert task.begin_file("p=4096").parent == task.attempt
    assert task.begin_file("p=4095", "", "-c001").parent == staged(task, task.dest / "p=4095")


@pytest.mark.parametrize("filesystem", FILE_SYSTEMS)
def test_a_directory_that_a_writer_makes_of_its_file_is_moved_to_the_attempts_own(
    installation, spark: SparkSession, tmp_path: Path, filesystem: str
):
    configuration = configuration_with(spark, filesystem, {})
    task = set_up(spark, tmp_path / "table", configuration=configuration).task()
    begun = task.begin_file("p=1")
    (begun / "deeper").mkdir(parents=True)
    (begun / "deeper" / "x").write_text("x")
    name = begun.name
    own = task.attempt / f"0-{name}"
    assert task.commit() == {str(own / "deeper" / "x"): f"{task.dest}/p=1/{name}/deeper/x"}
    assert not begun.exists()
    assert task.directories() == {
        f"{task.dest}/p=1": 1,
        f"{task.dest}/p=1/{name}": 2,
        f"{task.dest}/p=1/{name}/deeper": 3,
    }
    report = ray_committer.commit_job(str(task.dest), options=CommitOptions(expected_tasks=1))
    assert report.files == 1


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
    examples = json.loads((DATA / "hidden_names.json").read_text())
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
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("z")
    os.mkfifo(task.attempt / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(task.attempt)  # the path of a socket is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    assert set(task.commit().values()) == {f"{task.dest}/p=1/{begun.name}", f"{task.dest}/{asked.name}"}
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
    assert task.begin_file("p=1").name.startswith("part-")
    if not is_driver:
        with pytest.raises(
            Py4JJavaError, match="caf\u00e9: names of files are not UTF-8 in the driver's JVM"
        ):
            set_up(spark, tmp_path / "caf\u00e9")
