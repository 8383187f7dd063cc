"""What tasks do where files are uploads, with a file system that imitates the magic of S3A.

`tests/integration/s3a/test_df_write.py` does this with the real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.protocol.actions import predict_etag
from ray_committer.protocol.manifest import FileEntry, copy_name, decode_manifest, digest
from ray_committer.spark import install, uninstall
from ray_committer.spark.session import offer
from tests.integration.spark.tasks import JOB_ID, Job, Task, configuration_with, set_up

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

PARTS = ("0" * 32, "00ab" * 8)
PENDING: dict[str, Any] = {
    "version": 2,
    "bucket": "bucket",
    "destinationKey": "KEY",
    "uploadId": "id-1",
    "etags": list(PARTS),
    "length": "LENGTH",
}


class LocalHandler:
    """The handler of a session, for which the objects of the bucket are local files."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __getattr__(self, name: str) -> Any:
        return lambda request: getattr(self._handler, name)(request.replace("s3a://bucket", "file:"))


@dataclass(frozen=True)
class Bucket:
    """A destination on the imitated bucket, and the settings of its file system."""

    spark: SparkSession
    dest: Path
    aborted: Path

    def job(self, **settings: str) -> Job:
        pending = json.dumps(PENDING).replace('"LENGTH"', "LENGTH")
        given = {"magic.pending": pending, "magic.aborted": str(self.aborted), **settings}
        configuration = configuration_with(self.spark, "MagicFileSystem", given, scheme="s3a")
        return set_up(self.spark, self.dest, configuration=configuration, url=f"s3a://bucket{self.dest}")

    def ended(self) -> list[str]:
        """The ids of aborted uploads."""
        return sorted(path.name for path in self.aborted.iterdir())


@pytest.fixture
def bucket(spark: SparkSession, dest: Path, tmp_path: Path) -> Iterator[Bucket]:
    (tmp_path / "aborted").mkdir()
    installation = install(spark)
    handler: Any = LocalHandler(installation.handler)
    offer(spark, installation.token, handler)
    yield Bucket(spark, dest, tmp_path / "aborted")
    uninstall(spark)


def write(task: Task, partition: str, data: bytes = b"x") -> None:
    """Write a file as a format does, through the file system."""
    jvm = task.jvm
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://bucket{task.begin_file(partition)}")
    stream = path.getFileSystem(task.context.getConfiguration()).create(path, False)
    stream.write(data)
    stream.close()


def written(job: Job, number: int = 3, attempt: int = 0) -> Task:
    """A task attempt that has written a file, before the next one begins: Spark has one per protocol."""
    task = job.task(number, attempt)
    write(task, "p=1")
    return task


def changed(**fields: Any) -> dict[str, str]:
    """The setting that makes the client describe uploads otherwise."""
    return {"magic.pending": json.dumps({**PENDING, **fields}).replace('"LENGTH"', "LENGTH")}


def manifest(job: Job) -> bytes:
    (path,) = (job.directory / "manifests").iterdir()
    return path.read_bytes()


def test_a_task_saves_its_uploads_as_a_manifest_that_the_commit_reads(bucket: Bucket):
    job = bucket.job()
    task = job.task()
    write(task, "p=a b%/q=é", b"one")
    write(task, "p=2", b"")
    task.save()
    found = decode_manifest(manifest(job), "manifest")
    root = f"s3a://bucket{job.dest}"
    name = f"part-00003-{JOB_ID}.txt"
    assert found.files == [
        FileEntry(d=f"{root}/p=2/{name}", z=0, e=predict_etag(PARTS), u="id-1", p=PARTS),
        FileEntry(d=f"{root}/p=a%20b%25/q=é/{name}", z=3, e=predict_etag(PARTS), u="id-1", p=PARTS),
    ]
    assert (found.task_id, found.directories) == ("task_20260101_0001_m_000003", [])
    copies = list((job.directory / "tasks").glob("attempt_*/*"))
    assert [(path.name, path.read_bytes()) for path in copies] == [
        (copy_name(digest(manifest(job))), manifest(job))
    ]
    assert list(job.dest.rglob("*.pending")) == []
    assert bucket.ended() == []


def test_a_task_without_files_saves_a_manifest(bucket: Bucket):
    job = bucket.job()
    job.task().save()
    assert decode_manifest(manifest(job), "manifest").files == []


def test_etags_that_are_no_md5_sums_predict_nothing(bucket: Bucket):
    job = bucket.job(**changed(etags=["an etag of KMS"]))
    task = job.task()
    write(task, "p=1")
    task.save()
    (file,) = decode_manifest(manifest(job), "manifest").files
    assert (file.e, file.p) == (None, ("an etag of KMS",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (changed(version=3), "in a version that is known"),
        (changed(bucket="other"), "is the upload of .*, not of s3a://bucket"),
        (changed(destinationKey="elsewhere"), "is the upload of elsewhere, not of s3a://bucket"),
        (changed(etags=[]), "has no id of an upload, or no etag of a part"),
        (changed(etags=[{"etag": "x"}]), "has no id of an upload, or no etag of a part"),
        (changed(uploadId=""), "has no id of an upload, or no etag of a part"),
        ({"magic.pending": "{"}, "does not describe an upload"),
        ({"magic.writes": "false"}, "are not pending uploads: .*p=1/part-00003"),
    ],
)
def test_what_is_no_upload_of_this_task_is_refused_by_name(
    bucket: Bucket, settings: dict[str, str], message: str
):
    job = bucket.job(**settings)
    task = job.task()
    write(task, "p=1")
    with pytest.raises(Py4JJavaError, match=message) as caught:
        task.save()
    assert "__magic/job-job-1/tasks/attempt_20260101_0001_m_000003_0/__base" in str(caught.value)
    assert list((job.directory / "manifests").iterdir()) == []


def test_a_file_that_was_not_closed_fails_its_task(bucket: Bucket):
    job = bucket.job()
    task = job.task()
    write(task, "p=1")
    task.begin_file("p=2")
    with pytest.raises(Py4JJavaError, match=r"are not pending uploads: \[p=2/part-00003"):
        task.save()


def test_a_failed_attempt_aborts_its_uploads_and_those_of_no_other(bucket: Bucket):
    job = bucket.job()
    failed = written(job, 1)
    other = written(job, 2)
    jvm: Any = job.jvm
    jvm.Thread.currentThread().interrupt()  # Spark interrupts the tasks of a job that is cancelled
    failed.committer.abortTask(failed.context)
    assert jvm.Thread.interrupted()
    assert bucket.ended() == ["id-1"]
    assert [path.parent.name for path in job.dest.rglob("*.pending")] == ["p=1"]
    failed.committer.abortTask(failed.context)
    assert bucket.ended() == ["id-1"]
    other.save()
    assert len(decode_manifest(manifest(job), "manifest").files) == 1


def test_a_second_attempt_replaces_the_manifest_until_the_job_is_recorded(bucket: Bucket):
    job = bucket.job()
    attempts = [written(job, attempt=number) for number in range(3)]
    attempts[0].save()
    attempts[1].save()
    assert str(decode_manifest(manifest(job), "manifest").task_attempt_id).endswith("_000003_1")
    (state,) = (job.directory / "state").glob("*.state")
    state.rename(state.with_name(state.name.replace("open.", "recorded.", 1)))
    with pytest.raises(Py4JJavaError, match="the job is recorded, so a task can no longer join it"):
        attempts[2].save()
    assert str(decode_manifest(manifest(job), "manifest").task_attempt_id).endswith("_000003_1")
    attempts[2].committer.abortTask(attempts[2].context)
    assert bucket.ended() == ["id-1"]


def test_a_late_attempt_leaves_no_directories_of_a_job_that_is_over(bucket: Bucket):
    job = bucket.job()
    late = job.task()
    write(late, "p=1")
    assert ray_committer.abort_job(str(job.dest), JOB_ID, options=CommitOptions(job_attempt=0))
    late.committer.abortTask(late.context)
    assert bucket.ended() == ["id-1"]
    assert not job.dest.exists() or list(job.dest.iterdir()) == []


def test_a_file_system_without_magic_is_refused_before_the_handler_is_asked(bucket: Bucket):
    with pytest.raises(Py4JJavaError, match="does not write pending uploads there; write to s3a://"):
        bucket.job(**{"magic.enabled": "false"})
    assert not bucket.dest.exists()


def test_a_client_that_describes_uploads_only_in_memory_is_refused(bucket: Bucket):
    key = "fs.s3a.committer.magic.track.commits.in.memory.enabled"
    with pytest.raises(Py4JJavaError, match=f"set spark.hadoop.{key}=false"):
        bucket.job(**{key: "true"})
    assert not bucket.dest.exists()


def test_a_task_without_magic_is_refused(bucket: Bucket):
    job = bucket.job()
    job.configuration.set("magic.enabled", "false")
    with pytest.raises(Py4JJavaError, match="does not write pending uploads there"):
        job.task()


def test_a_location_outside_of_the_table_is_refused(bucket: Bucket):
    task = bucket.job().task()
    with pytest.raises(Py4JJavaError, match="/elsewhere: is the location of a partition outside"):
        task.begin_file_at(Path("/elsewhere"))


def test_only_local_names_depend_on_the_encoding_of_the_jvm(bucket: Bucket, not_utf8):
    task = replace(bucket, dest=bucket.dest / "caf\u00e9").job().task()
    assert task.begin_file("p=\u00e9").name.startswith("part-")
