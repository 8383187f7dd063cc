"""A recursive delete is not atomic: what a clean-up that was cut off within one leaves."""

from __future__ import annotations

import pytest

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
