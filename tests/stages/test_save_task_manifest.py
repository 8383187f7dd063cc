"""A manifest is saved whole or not at all, and never into a job that is decided or over."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitRecordExistsError, TaskCommitError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.testing import StoreCall, WrappedStore


def save(store, job, attempts: int = 5) -> list[float]:
    slept: list[float] = []
    save_task_manifest(
        store,
        job,
        TaskManifest(files=[]),
        task_id="task_1_m_000000",
        task_attempt_id="attempt_1_m_000000_0",
        attempts=attempts,
        sleep=slept.append,
    )
    return slept


@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("lost_answer", [False, True])
def test_a_manifest_is_saved_in_as_many_tries_as_asked_for(
    dest: Path, store, write_job, operation: str, lost_answer: bool
):
    job = write_job({})
    failures = iter([True, True])

    def fail(call: StoreCall) -> None:
        if call.operation == operation and next(failures, False):
            raise OSError("simulated")

    faulty = WrappedStore(store, **{"after" if lost_answer else "before": fail})
    assert save(faulty, job) == [0.5, 1.0]
    path = job.manifest("task_1_m_000000")
    assert decode_manifest(Path(path).read_bytes(), path).files == []
    assert len(list(Path(job.manifests).iterdir())) == 1


@pytest.mark.parametrize("attempts", [1, 2, 7])
def test_the_number_of_tries_counts(dest: Path, store, write_job, attempts: int):
    job = write_job({})
    writes: list[StoreCall] = []

    def fail(call: StoreCall) -> None:
        if call.operation == "write":
            writes.append(call)
            raise OSError("simulated")

    with pytest.raises(TaskCommitError, match=f"in {attempts} tries"):
        save(WrappedStore(store, before=fail), job, attempts)
    assert len(writes) == attempts


def test_a_task_attempt_that_wakes_after_the_job_is_over_cannot_save_a_manifest(
    dest: Path, store, write_job, tree
):
    job = write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest), "job_1")
    Path(job.task_attempt("attempt_1_m_000000_9")).mkdir(parents=True)
    with pytest.raises(TaskCommitError, match="is over"):
        save(store, job)
    assert ray_committer.commit_job(str(dest), "job_1").outcome == "already committed"
    assert tree() == {"a": "x"}


def test_a_task_cannot_commit_once_the_jobs_commit_has_begun(dest: Path, store, write_job):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), "job_1")
    with pytest.raises(CommitRecordExistsError, match="too late"):
        save(store, job)
