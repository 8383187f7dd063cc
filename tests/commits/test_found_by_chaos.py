"""Where random faults once found a commit wrong, one test each."""

from __future__ import annotations

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, RayCommitterError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.testing import (
    Chaos,
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    chaos_executor,
    fail_at,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


def test_a_partition_is_not_replaced_beside_a_job_that_moved_files_into_it():
    store = MemoryStore()
    first, second = (new_job_attempt("/table", job_id, 0) for job_id in ("job_1", "job_2"))
    write_job(store, first, {0: {"p=1/a": b"1", "p=1/b": b"22"}})
    write_job(store, second, {0: {"p=1/c": b"333"}})

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/b"):
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), first)
    options = CommitOptions(
        mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=1",), unfinished="refuse"
    )
    with pytest.raises(CommitConflictError):
        run_commit(store, second, options)
    assert run_commit(store, first).outcome is Outcome.COMMITTED


@pytest.mark.slow
@pytest.mark.parametrize("identity", [Identity.MODIFICATION_TIME, Identity.ETAG, Identity.GENERATION])
def test_two_runs_of_one_rename_over_an_old_file_raise_no_false_alarm(identity: Identity):
    prepared, job = MemoryStore(identity=identity), new_job_attempt("/table", "job_1", 0)
    put_file(prepared, "/table/a", b"old")
    write_job(prepared, job, {0: {"a": b"newer"}}, mode=ConflictMode.OVERWRITE)
    for seed in range(60):
        store = prepared.copy()
        executor = chaos_executor(store, job, seed, kinds=[Chaos.TWICE_AT_ONCE])
        run_commit(store, job, OVERWRITE, executor=executor)
        assert visible_files(store, job.destination) == {"a": b"newer"}


@pytest.mark.parametrize("identity", [Identity.FILE_ID, Identity.SIZE_ONLY])
def test_an_old_and_a_new_file_of_one_size_that_nothing_tells_apart_stop_the_commit(identity: Identity):
    """On a store that keeps neither etag nor time, doubt is an error, and nothing is deleted."""
    store, job = MemoryStore(identity=identity), new_job_attempt("/table", "job_1", 0)
    put_file(store, "/table/a", b"old")
    write_job(store, job, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)

    def crash(call: StoreCall) -> None:
        if call.operation == "replace":
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=crash), job, OVERWRITE)
    with pytest.raises(CommitStateUnknownError, match="/table/a"):
        run_commit(store, job, OVERWRITE)
    assert visible_files(store, job.destination) == {"a": b"new"}


def test_a_store_that_fails_at_once_raises_an_error_of_this_package(monkeypatch, store, write_job, dest):
    write_job({0: {"a": "x"}})
    failing = WrappedStore(store, before=fail_at(1))
    monkeypatch.setattr(ray_committer.jobs.open_job, "open_store", lambda spec, **_: failing)
    with pytest.raises(RayCommitterError):
        ray_committer.commit_job(str(dest), "job_1", executor="inline")
