"""Clean-up removes the job's own directory and nothing else, and finishes what it was cut off in."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.cleanup_job import FEW_ATTEMPTS
from ray_committer.testing import (
    Fault,
    FaultKind,
    FaultSchedule,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)


def test_clean_up_leaves_other_jobs_alone(store, write_job, dest: Path, tree):
    first = write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "y"}}, job_id="job_2")
    run_commit(store, first)
    assert not Path(first.job_directory).exists()
    assert ray_committer.commit_job(str(dest)).job_id == "job_2"
    assert tree() == {"a": "x", "b": "y"}
    assert not (dest / "_temporary").exists()


def test_a_failed_clean_up_does_not_fail_the_committed_job(store, write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def fail(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise OSError("simulated")

    report = run_commit(WrappedStore(store, before=fail), job)
    assert report.outcome is Outcome.COMMITTED
    assert any("not cleaned up" in notice for notice in report.notices)
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.COMMITTED
    assert not (dest / "_temporary").exists()
    assert tree() == {"a": "x"}


FILES = {"p=1/a": b"x", "p=2/b": b"y"}


def prepared(mode: ConflictMode, tasks: int) -> tuple[MemoryStore, JobAttempt]:
    store, job = MemoryStore(), new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: FILES, **{task: {} for task in range(1, tasks)}}, mode=mode)
    return store, job


def left_after_each_cut(mode: ConflictMode, tasks: int) -> list[list[str]]:
    """What is left when each recursive delete in turn was cut off and the commit was run again."""
    options, left = CommitOptions(mode=mode), []
    calls: list[StoreCall] = []
    store, job = prepared(mode, tasks)
    run_commit(WrappedStore(store, before=calls.append), job, options)
    for cut in (call.number for call in calls if call.operation == "delete_directory"):
        store, job = prepared(mode, tasks)
        faulty = FaultSchedule(0, cut, (Fault(FaultKind.CRASH_WITHIN, cut),)).wrap(store)
        with pytest.raises(SimulatedCrash):
            run_commit(faulty, job, options)
        report = run_commit(store, job, options)
        assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        assert visible_files(store, job.destination) == FILES
        left.append(list(store.files(job.job_directory)))
    assert len(left) >= 3
    return left


@pytest.mark.parametrize("tasks", [2, FEW_ATTEMPTS + 1])
@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE])
def test_nothing_is_left(mode: ConflictMode, tasks: int):
    assert not any(left_after_each_cut(mode, tasks))
