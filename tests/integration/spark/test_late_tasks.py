"""Tasks that outlive their job, and an abort beside a commit: one decision, which both respect."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import ray_committer
from ray_committer import CommitOptions
from ray_committer.cli.main import main
from ray_committer.errors import RayCommitterError
from ray_committer.events import Event, StageStarted
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.manifest import STAMP
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.spark import install
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.integration.spark.conftest import data_files
from tests.integration.spark.jvm import COMMAND
from tests.integration.spark.tasks import JOB_ID, Job, Task, configuration_with, set_up

pytestmark = [pytest.mark.one_spark, pytest.mark.spark, pytest.mark.xdist_group("spark")]

NOT_KNOWN = "is over, and it is not known whether its commit included this task attempt"
MEANWHILE = [
    pytest.param("replaced", "is recorded, so a task can no longer join it", id="another counts"),
    pytest.param("committed", NOT_KNOWN, id="committed"),
    pytest.param("aborted", NOT_KNOWN, id="aborted"),
    pytest.param("begun again", NOT_KNOWN, id="the id was set up again"),
]

# A command whose set-up says nothing.
SILENT = """#!/bin/sh
case "$*" in "spark-job setup") {command} "$@" > "$0.ran"; exit 0;; esac
exec {command} "$@"
"""


@pytest.fixture
def job(installation, spark: SparkSession, dest: Path) -> Job:
    return set_up(spark, dest)


def stamp_of(dest: Path) -> str:
    seen = read_state(LocalStore(StoreSpec("file")), new_job_attempt(str(dest), JOB_ID, 0))
    assert seen is not None
    return seen.state.stamp


def write(task: Task) -> Path:
    path = task.begin_file("p=1")
    path.write_text("x")
    return path


def record(dest: Path) -> None:
    ray_committer.record_job(
        str(dest), JOB_ID, executor="inline", options=CommitOptions(expected_tasks=1)
    )


def test_a_manifest_bears_the_stamp_of_its_job(job: Job):
    task = job.task()
    write(task)
    task.save()
    assert task.manifest()["extraData"] == {STAMP: stamp_of(job.dest)}
    report = ray_committer.commit_job(str(job.dest), options=CommitOptions(expected_tasks=1))
    assert report.files == 1


def test_a_task_that_ends_after_its_job_was_recorded_saves_no_manifest(job: Job):
    counted = job.task(0)
    write(counted)
    counted.save()
    late = job.task(1)
    write(late)
    record(job.dest)
    with pytest.raises(Py4JJavaError, match="the job is recorded, so a task can no longer join it"):
        late.save()
    assert not (job.directory / "manifests").exists()
    assert len(list((job.directory / "frozen").glob("*.json"))) == 1


def test_a_task_of_a_job_that_is_recorded_does_not_begin(job: Job):
    counted = job.task(0)
    write(counted)
    counted.save()
    record(job.dest)
    with pytest.raises(Py4JJavaError, match="a task can no longer join it"):
        job.task(1)


def test_a_late_task_of_an_ended_job_does_not_join_another_of_its_id(job: Job, spark: SparkSession):
    late = job.task()
    assert ray_committer.abort_job(str(job.dest), JOB_ID)
    again = set_up(spark, job.dest)
    write(late)
    with pytest.raises(Py4JJavaError, match="is another job with the same id; the job that this task"):
        late.save()
    assert list((again.directory / "manifests").iterdir()) == []
    counted = again.task()
    write(counted)
    counted.save()
    assert counted.manifest()["extraData"] == {STAMP: stamp_of(job.dest)}


def test_a_task_that_outlives_its_job_leaves_nothing(job: Job):
    late = job.task()
    job.abort()
    write(late)
    with pytest.raises(Py4JJavaError, match="never set up, or it is already cleaned up"):
        late.save()
    late.protocol.abortTask(late.context)  # as Spark does
    assert not (job.dest / "_temporary").exists()


def test_a_state_that_is_not_seen_for_a_moment_is_looked_for_again(job: Job):
    """A listing made while the name changes may show none; it must not be taken for an ended job."""
    task = job.task()
    write(task)
    (state,) = (job.directory / "state").glob("*.state")
    hidden = state.with_suffix(".hidden")
    state.rename(hidden)
    with ThreadPoolExecutor(1) as threads:
        saving = threads.submit(task.save)
        time.sleep(0.05)
        hidden.rename(state)
        saving.result(60)
    assert task.manifest()["taskID"].endswith("_000003")


def test_a_state_is_read_where_a_store_keeps_it_as_an_object(job: Job):
    """As on gs://, where directories are not renamed."""
    (state,) = (job.directory / "state").glob("*.state")
    state.with_name("current").write_text(state.name)
    state.unlink()
    task = job.task()
    write(task)
    task.save()
    state.with_name("current").write_text(state.name.replace("open.", "recorded.", 1))
    with pytest.raises(Py4JJavaError, match="the job is recorded, so a task can no longer join it"):
        job.task(1)


@dataclass(frozen=True)
class Sleeper:
    """A task attempt that has saved its manifest, and has not looked again yet."""

    job: Job
    task: Task
    file: Path
    saving: Future[None]
    awake: Path

    def wake(self) -> None:
        """Let it go on, to its end; raises what it raises."""
        self.awake.touch()
        self.saving.result(60)


@pytest.fixture
def sleeper(job: Job, spark: SparkSession, tmp_path: Path) -> Any:
    asleep, awake = tmp_path / "asleep", tmp_path / "awake"
    names = {"sleeping.asleep": str(asleep), "sleeping.awake": str(awake)}
    sleepy = configuration_with(spark, "SleepingFileSystem", names)
    task = job.task(configuration=sleepy)
    file = write(task)
    with ThreadPoolExecutor(1) as threads:
        saving = threads.submit(task.save)
        while not asleep.exists():
            assert not saving.done(), saving.result()
            time.sleep(0.02)
        yield Sleeper(job, task, file, saving, awake)
        awake.touch()


def test_a_task_that_slept_while_its_manifest_was_frozen_is_counted(sleeper: Sleeper):
    record(sleeper.job.dest)
    sleeper.wake()
    ray_committer.commit_job(str(sleeper.job.dest), JOB_ID)
    assert len(data_files(sleeper.job.dest)) == 1


@pytest.mark.parametrize(("meanwhile", "message"), MEANWHILE)
def test_a_task_that_slept_while_its_job_was_decided_does_not_say_more_than_it_knows(
    sleeper: Sleeper, spark: SparkSession, meanwhile: str, message: str
):
    job = sleeper.job
    if meanwhile == "replaced":
        other = job.task(attempt=1)
        write(other)
        other.save()
        record(job.dest)
    elif meanwhile == "committed":
        ray_committer.commit_job(str(job.dest), JOB_ID, options=CommitOptions(expected_tasks=1))
    else:
        ray_committer.abort_job(str(job.dest), JOB_ID)
    if meanwhile == "begun again":
        set_up(spark, job.dest)
    with pytest.raises(Py4JJavaError, match=message):
        sleeper.wake()


def test_the_command_in_the_answer_of_a_task_that_slept_says_what_became_of_its_job(sleeper: Sleeper):
    dest = sleeper.job.dest
    ray_committer.commit_job(str(dest), JOB_ID, options=CommitOptions(expected_tasks=1))
    with pytest.raises(Py4JJavaError) as caught:
        sleeper.wake()
    text = str(caught.value.java_exception.getMessage())
    command = text.partition("became of the job with: ")[2].partition("; ")[0]
    words = shlex.split(command)
    assert words == ["ray-committer", "commit", f"file:{dest}", "--job-id", JOB_ID]
    assert CliRunner().invoke(main, words[1:]).exit_code == 0
    assert len(data_files(dest)) == 1


def test_a_task_attempt_that_may_count_keeps_its_files(sleeper: Sleeper):
    (state,) = (sleeper.job.directory / "state").glob("*.state")
    state.rename(state.with_name(state.name.replace("open.", "committed.", 1)))
    with pytest.raises(Py4JJavaError, match=NOT_KNOWN):
        sleeper.wake()
    sleeper.task.protocol.abortTask(sleeper.task.context)  # as Spark does
    assert sleeper.file.exists()


def test_a_task_attempt_that_has_saved_its_manifest_keeps_its_files_when_spark_aborts_it(job: Job):
    """As when its answer is lost on the way to the driver."""
    task = job.task()
    file = write(task)
    task.save()
    task.protocol.abortTask(task.context)
    assert file.exists()


def test_a_task_attempt_whose_save_has_failed_keeps_its_files(job: Job):
    """The request that failed may have been done."""
    task = job.task()
    file = write(task)
    manifests = job.directory / "manifests"
    manifests.rmdir()
    manifests.touch()
    with pytest.raises(Py4JJavaError, match="cannot save the manifest, tried 5 times"):
        task.save()
    task.protocol.abortTask(task.context)
    assert file.exists()


def test_a_task_attempt_that_did_not_try_to_save_removes_its_files_and_no_others(job: Job):
    other = write(job.task(2))
    aborted = job.task(3)
    files = [write(aborted), aborted.begin_file(None), aborted.begin_file("p=2")]
    files[1].write_text("x")
    aborted.protocol.abortTask(aborted.context)
    assert [file.exists() for file in files] == [False, False, False]
    assert other.exists()
    assert all(file.parent.is_dir() for file in files)  # others may be about to write there


def test_a_task_that_outlives_its_job_leaves_no_directories_that_it_has_made(job: Job):
    late = job.task()
    job.abort()
    for partition in ("p=1", "p=2", None):
        late.begin_file(partition).write_text("x")
    late.protocol.abortTask(late.context)
    assert not (job.dest / "_temporary").exists()


@pytest.mark.parametrize("is_named", [True, False])
def test_where_the_state_is_an_object_the_record_says_whether_a_task_that_slept_counts(
    sleeper: Sleeper, is_named: bool
):
    directory = sleeper.job.directory / "state"
    (state,) = directory.glob("*.state")
    _, intent, stamp, nonce, _ = state.name.split(".")
    (manifest,) = (sleeper.job.directory / "manifests").glob("*.json")
    digest = sha256(manifest.read_bytes()).hexdigest() if is_named else "another"
    (directory / "record.json").write_text(json.dumps({"manifests": [{"digest": digest}]}))
    state.unlink()
    (directory / "current").write_text(f"recorded.{intent}.{stamp}.{nonce}.record.state")
    if is_named:
        sleeper.wake()
    else:
        with pytest.raises(Py4JJavaError, match="the job is recorded, so a task can no longer join it"):
            sleeper.wake()


def test_a_task_that_slept_while_its_job_was_declared_waits_for_what_becomes_of_it(sleeper: Sleeper):
    (state,) = (sleeper.job.directory / "state").glob("*.state")
    declared = state.with_name(state.name.replace("open.", "declared.", 1))
    state.rename(declared)
    sleeper.awake.touch()
    time.sleep(0.5)
    assert not sleeper.saving.done()
    declared.rename(state)
    sleeper.wake()


def held_at(stage: str, begun: threading.Event, go_on: threading.Event) -> Callable[[Event], None]:
    def hold(event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == stage:
            begun.set()
            assert go_on.wait(60)

    return hold


@pytest.mark.parametrize("handler", ["python", "child"])
@pytest.mark.parametrize(
    ("stage", "is_committed"),
    [("job_stage_load_manifests", False), ("job_stage_rename_files", True)],
    ids=["before the record", "after the record"],
)
def test_of_sparks_abort_and_a_commit_at_once_only_one_succeeds(
    configure, spark: SparkSession, dest: Path, stage: str, is_committed: bool, handler: str
):
    configure({"command": COMMAND} if handler == "child" else {})
    if handler == "python":
        install(spark)
    job = set_up(spark, dest)
    task = job.task()
    write(task)
    task.save()
    begun, go_on = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        committing = threads.submit(
            ray_committer.commit_job,
            str(job.dest),
            JOB_ID,
            executor="inline",
            options=CommitOptions(expected_tasks=1),
            on_event=held_at(stage, begun, go_on),
        )
        assert begun.wait(60)
        job.abort()
        go_on.set()
        if is_committed:
            committing.result(60)
        else:
            with pytest.raises(RayCommitterError):
                committing.result(60)
    assert len(data_files(job.dest)) == is_committed
    assert (job.dest / "_SUCCESS").exists() == is_committed
    assert not (job.dest / "_temporary").exists()


def test_an_abort_in_an_interrupted_thread_is_done_to_its_end(
    configure, spark: SparkSession, dest: Path
):
    """As when a streaming query is stopped: a child is waited for, which an interrupt would end."""
    configure(command=COMMAND)
    job = set_up(spark, dest)
    jvm: Any = spark._jvm
    jvm.Thread.currentThread().interrupt()  # Py4J calls from one Python thread in one of the JVM
    job.abort()
    assert jvm.Thread.interrupted()
    assert not (job.dest / "_temporary").exists()


def test_a_set_up_whose_answer_is_lost_leaves_nothing(
    configure, spark: SparkSession, dest: Path, tmp_path: Path
):
    """The job is there, and no task will ever know its stamp."""
    command = tmp_path / "silent"
    command.write_text(SILENT.format(command=COMMAND))
    command.chmod(0o755)
    configure(command=str(command))
    with pytest.raises(Py4JJavaError, match="silent spark-job setup` gave no answer"):
        set_up(spark, dest)
    assert (tmp_path / "silent.ran").exists()
    assert not (dest / "_temporary").exists()
