"""Committing a task when the store fails on the way: how often it tries, and what then stands.

Beside `tests/stages/test_save_task_manifest`, which has the tries and the lost answers.
Source: Hadoop TestCommitTaskStage, by scenario.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import TaskCommitError
from ray_committer.job_files.job_state import require_state
from ray_committer.protocol.manifest import FileEntry, TaskManifest, decode_manifest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.success import decode_success
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore

TASK, ATTEMPT = "task_1_m_000000", "attempt_1_m_000000_0"


@pytest.fixture
def job(write_job) -> JobAttempt:
    return write_job({})


def save(store: StoreOperations, job: JobAttempt, *, files: int = 0, attempts: int = 5) -> list[float]:
    """Save a manifest; returns the seconds slept between the tries."""
    root = job.task_attempt(ATTEMPT)
    entries = [
        FileEntry(s=f"file:{root}/{n}", d=f"file:{job.destination}/{n}", z=n) for n in range(files)
    ]
    slept: list[float] = []
    save_task_manifest(
        store,
        job,
        TaskManifest(files=entries),
        task_id=TASK,
        task_attempt_id=ATTEMPT,
        stamp=require_state(LocalStore(StoreSpec("file")), job).state.stamp,
        attempts=attempts,
        sleep=slept.append,
    )
    return slept


def saved_files(job: JobAttempt) -> int:
    path = job.manifest(TASK)
    return len(decode_manifest(Path(path).read_bytes(), path).files)


def test_a_task_that_wrote_nothing_makes_a_job_that_names_nothing(write_job, dest: Path):
    write_job({0: {}}, job_id="job_2")
    ray_committer.commit_job(str(dest), "job_2")
    success = decode_success((dest / "_SUCCESS").read_bytes(), "_SUCCESS")
    assert success is not None
    assert success.success
    assert not success.filenames


@pytest.mark.parametrize("lost_answers", [4, 5])
def test_renames_that_time_out_after_they_happened_are_tried_again_up_to_the_limit(
    store, job, lost_answers: int
):
    lost: list[StoreCall] = []

    def time_out(call: StoreCall) -> None:
        if call.operation == "replace" and len(lost) < lost_answers:
            lost.append(call)
            raise TimeoutError("Operation could not be completed within the specified time")

    faulty = WrappedStore(store, after=time_out)
    if lost_answers == 5:
        with pytest.raises(TaskCommitError, match=r"in 5 tries.*within the specified time"):
            save(faulty, job)
    else:
        assert save(faulty, job) == [0.5, 1.0, 1.5, 2.0]
    assert saved_files(job) == 0
    assert len(list(Path(job.manifests).iterdir())) == 1


def test_a_manifest_is_replaced_without_being_deleted_first(store, job):
    save(store, job, files=1)
    calls: list[StoreCall] = []

    def look(call: StoreCall) -> None:
        calls.append(call)
        assert saved_files(job) in (1, 7)

    save(WrappedStore(store, before=look, after=look), job, files=7)
    assert saved_files(job) == 7
    assert not [call for call in calls if call.operation.startswith("delete")]


def test_a_failure_to_save_leaves_the_manifest_that_was_there(store, job):
    save(store, job, files=1)

    def fail(call: StoreCall) -> None:
        if call.operation in ("write", "replace"):
            raise OSError("Simulated failure of save")

    with pytest.raises(TaskCommitError, match="Simulated failure of save"):
        save(WrappedStore(store, before=fail), job, files=7)
    assert saved_files(job) == 1


def test_a_torn_manifest_has_a_name_that_no_job_loads(store, job, dest: Path, tree):
    def fail(call: StoreCall) -> None:
        if call.operation == "replace":
            raise OSError("Simulated failure of rename")

    torn = WrappedStore(store, before=fail, write_data=lambda _, data: data[:40])
    with pytest.raises(TaskCommitError):
        save(torn, job)
    assert len(list(Path(job.manifests).iterdir())) == 1
    with ray_committer.task_attempt(str(dest), "job_1", 1) as attempt:
        Path(attempt.path("a")).write_text("x")
    assert ray_committer.commit_job(str(dest)).manifests == 1
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("temporary", [False, True])
def test_a_directory_in_the_place_of_a_manifest_is_refused_and_kept(store, job, temporary: bool):
    blocked = Path(job.manifest_temporary(ATTEMPT) if temporary else job.manifest(TASK))
    (blocked / "inside").mkdir(parents=True)
    with pytest.raises(TaskCommitError, match=f"{TASK}-manifest.json: could not be saved in 2 tries"):
        save(store, job, attempts=2)
    assert (blocked / "inside").is_dir()
    (blocked / "inside").rmdir()
    blocked.rmdir()
    assert save(store, job) == []
