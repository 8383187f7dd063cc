"""A committer that slept while others went on with its job harms neither that job nor a later one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitStateUnknownError,
)
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.commit_job import commit_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import (
    commit_attempt,
    put_file,
    run_abort,
    set_up_attempt,
    write_attempt,
)
from tests.opening import is_of_task
from tests.stages.support import KINDS, at, context

FIRST = new_job_attempt("/table", "job_1", 0)
SECOND = new_job_attempt("/table", "job_2", 0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


def save_another_attempt(store: StoreOperations) -> None:
    """Let a second attempt of the task commit, so that the first does not count any more."""
    attempt = set_up_attempt(store, FIRST, 0, 1)
    write_attempt(store, FIRST, attempt, {"b": b"22"})
    commit_attempt(store, FIRST, 0, attempt)


@pytest.mark.parametrize("real_directories", [True, False])
def test_a_committer_that_loaded_another_attempt_than_the_record_names_goes_by_the_record(
    real_directories: bool,
):
    """Both have as many manifests; between them a second attempt of the task has saved its own."""
    store, begun = MemoryStore(real_directories=real_directories), []
    write_job(store, FIRST, {0: {"a": b"1"}})

    def overtake(call: StoreCall) -> None:
        is_first_change = call.operation in ("move_directory", "write", "advance") and not is_of_task(
            call.paths[0]
        )
        if is_first_change and not begun and "-manifest.json" not in call.paths[0]:
            begun.append(call)
            save_another_attempt(store)
            with pytest.raises(SimulatedCrash):
                run_commit(WrappedStore(store, before=at("rename", SimulatedCrash(), "/b")), FIRST)

    assert run_commit(WrappedStore(store, before=overtake), FIRST).moved == 1
    assert begun
    assert visible_files(store, "/table") == {"b": b"22"}


def overwriting() -> MemoryStore:
    """A store with an old file, and a job that replaces it."""
    store = MemoryStore()
    put_file(store, "/table/a", b"old")
    write_job(store, FIRST, {0: {"b": b"1"}}, mode=ConflictMode.OVERWRITE)
    return store


def long_ago(store: StoreOperations, job: JobAttempt, options: CommitOptions) -> CommitResult:
    """Commit as a process whose last sign of life is so old that others think it dead."""
    return commit_job(context(store, options, job=job), read_job(store, job))


@pytest.mark.parametrize("kind", ["directories", "etags", "generations"])
def test_a_committer_that_sleeps_before_it_removes_an_old_file_removes_none_of_a_later_job(kind: str):
    """Others have ended its job meanwhile, and a third job has put a file of that name there."""
    store, woken = KINDS[kind](), []
    put_file(store, "/table/a", b"old")
    put_file(store, "/table/b", b"old")
    write_job(store, FIRST, {0: {"c": b"1"}}, mode=ConflictMode.OVERWRITE)
    write_job(store, SECOND, {0: {"a": b"2", "b": b"2"}})

    def sleep(call: StoreCall) -> None:
        is_removal = call.operation in ("set_aside", "delete_version", "delete_file")
        if is_removal and call.paths[0] == "/table/a" and not woken:
            woken.append(call)
            assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED
            assert run_commit(store, SECOND).outcome is Outcome.COMMITTED

    with pytest.raises(CommitStateUnknownError, match="was ended by another process"):
        long_ago(WrappedStore(store, before=sleep), FIRST, OVERWRITE)
    assert woken
    assert visible_files(store, "/table") == {"a": b"2", "b": b"2", "c": b"1"}
    assert store.get_status(FIRST.temporary) is None


def test_the_places_for_old_files_are_gone_before_the_job_is_committed():
    """A later job may be committed before the clean-up of this one has begun."""
    store, woken = overwriting(), []
    write_job(store, SECOND, {0: {"a": b"2"}})

    def sleep(call: StoreCall) -> None:
        if call.operation == "set_aside" and not woken:
            woken.append(call)
            run_commit(store, FIRST, replace(OVERWRITE, cleanup=False))
            run_commit(store, SECOND)
            assert store.get_status(FIRST.directory) is not None

    report = long_ago(WrappedStore(store, before=sleep), FIRST, OVERWRITE)
    assert woken
    assert report.outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"a": b"2", "b": b"1"}


def test_a_committer_that_sleeps_before_it_makes_places_for_old_files_leaves_none_of_them():
    store, woken = overwriting(), []

    def sleep(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].startswith(FIRST.state) and not woken:
            woken.append(call)
            assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED

    report = long_ago(WrappedStore(store, before=sleep), FIRST, OVERWRITE)
    assert woken
    assert report.outcome is Outcome.ALREADY_COMMITTED
    assert visible_files(store, "/table") == {"b": b"1"}
    assert store.get_status(FIRST.temporary) is None


def test_places_that_a_committer_made_of_a_job_that_was_over_hinder_nobody_and_go_with_an_abort():
    """It slept until then, made them, and died."""
    store, woken = overwriting(), []

    def sleep(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].startswith(FIRST.state) and not woken:
            woken.append(call)
            assert run_commit(store, FIRST, OVERWRITE).outcome is Outcome.COMMITTED

    def die(call: StoreCall) -> None:
        if call in woken:
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        long_ago(WrappedStore(store, before=sleep, after=die), FIRST, OVERWRITE)
    assert store.get_status(FIRST.state) is not None
    write_job(store, SECOND, {0: {"c": b"2"}}, mode=ConflictMode.OVERWRITE)
    assert run_commit(store, SECOND, OVERWRITE).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"c": b"2"}
    assert not run_abort(store, FIRST)
    assert store.get_status(FIRST.temporary) is None
