"""What no other test noticed when it was broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobGoneError,
    ManifestError,
)
from ray_committer.job_files.find_job import read_attempt_state
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
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
    run_undo,
    set_up_attempt,
    write_attempt,
)
from tests.doubles import phase_of
from tests.stages.support import KINDS, context

FIRST = new_job_attempt("/table", "job_1", 0)
SECOND = new_job_attempt("/table", "job_2", 0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
REPLACE = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=1",))
IMPATIENT = CommitOptions(conflict_wait_seconds=0.05)


def stop_before_moving(store: StoreOperations, name: str) -> None:
    """Commit the first job, up to the rename of a file to this name."""

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1] == f"/table/{name}":
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), FIRST)


def test_a_commit_that_begins_while_old_files_are_listed_waits_and_keeps_its_files():
    """It had no record when the overwrite looked for one; so that has declared itself before."""
    store, begun = MemoryStore(), 0
    write_job(store, FIRST, {0: {"p=1/a": b"1", "p=1/b": b"2"}})
    write_job(store, SECOND, {0: {"p=1/c": b"3"}})

    def begin(call: StoreCall) -> None:
        nonlocal begun
        if call.operation == "list_status" and call.paths[0] == "/table/p=1":
            begun += 1
            with pytest.raises(CommitConflictError, match=r"job_2.*\(waited 0\.05 s\)"):
                run_commit(store, FIRST, IMPATIENT)

    assert run_commit(WrappedStore(store, before=begin), SECOND, REPLACE).outcome is Outcome.COMMITTED
    assert begun
    assert visible_files(store, "/table") == {"p=1/c": b"3"}
    assert run_commit(store, FIRST).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"p=1/a": b"1", "p=1/b": b"2", "p=1/c": b"3"}


def test_an_overwrite_waits_for_a_commit_that_is_at_work_where_it_replaces_data():
    store, refused = MemoryStore(), 0
    write_job(store, FIRST, {0: {"p=1/a": b"1", "p=1/b": b"2"}})
    write_job(store, SECOND, {0: {"p=1/c": b"3"}})

    def overtake(call: StoreCall) -> None:
        nonlocal refused
        if call.operation == "rename" and call.paths[1] == "/table/p=1/b":
            refused += 1
            with pytest.raises(CommitConflictError, match=r"job_1.*\(waited 0\.05 s\)"):
                run_commit(store, SECOND, replace(REPLACE, conflict_wait_seconds=0.05))

    assert run_commit(WrappedStore(store, before=overtake), FIRST).outcome is Outcome.COMMITTED
    assert refused == 1
    assert visible_files(store, "/table") == {"p=1/a": b"1", "p=1/b": b"2"}
    assert run_commit(store, SECOND, REPLACE).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"p=1/c": b"3"}


def changed_to_the_same_size(*, listing_is_cheap: bool) -> MemoryStore:
    store = MemoryStore(identity=Identity.MODIFICATION_TIME, listing_is_cheap=listing_is_cheap)
    put_file(store, "/table/a", b"old data")
    write_job(store, FIRST, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    (source,) = store.list_files(FIRST.tasks)
    store.write(source.path, b"bad")
    return store


def test_a_file_that_changed_to_the_same_size_is_found_before_the_record():
    store = changed_to_the_same_size(listing_is_cheap=True)
    with pytest.raises(ManifestError, match="/a: was changed after its task committed"):
        run_commit(store, FIRST, OVERWRITE)
    assert visible_files(store, "/table") == {"a": b"old data"}
    assert phase_of(store, FIRST) is Phase.OPEN


def test_a_file_that_changed_to_the_same_size_does_not_replace_an_old_one():
    """Where nobody lists before the record; then the commit can still be given up."""
    store = changed_to_the_same_size(listing_is_cheap=False)
    with pytest.raises(CommitStateUnknownError, match="must not replace /table/a"):
        run_commit(store, FIRST, OVERWRITE)
    assert visible_files(store, "/table") == {"a": b"old data"}
    assert run_undo(store, FIRST)
    assert visible_files(store, "/table") == {"a": b"old data"}
    assert store.get_status(FIRST.temporary) is None


def test_the_marker_of_another_job_does_not_answer_for_one_whose_files_are_gone():
    store = MemoryStore()
    write_job(store, FIRST, {0: {"a": b"1"}})
    write_job(store, SECOND, {0: {"b": b"2"}})
    run_commit(store, FIRST)
    assert store.get_status(FIRST.success) is not None
    store.delete_directory(SECOND.temporary)
    with pytest.raises(JobGoneError, match=r"may have been committed .* clean-up") as caught:
        run_commit(store, SECOND, CommitOptions(expected_tasks=1))
    assert caught.value.exit_code == 3


def test_who_knows_the_number_of_tasks_does_not_know_what_they_were_to_replace():
    store = MemoryStore()
    put_file(store, "/table/old", b"old")
    write_job(store, FIRST, {0: {"a": b"1"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(IncompleteJobError, match="this job was to replace data"):
        run_commit(store, FIRST, CommitOptions(expected_tasks=1))
    assert visible_files(store, "/table") == {"old": b"old"}


@pytest.mark.parametrize("name", ["p=1/old", "p=2/old"])
def test_who_knows_the_number_of_tasks_does_not_know_where_there_must_be_no_data(name: str):
    store = MemoryStore()
    put_file(store, f"/table/{name}", b"old")
    write_job(store, FIRST, {0: {"p=1/a": b"1"}}, mode=ConflictMode.ERROR_PARTITIONS)
    with pytest.raises(IncompleteJobError, match="was not to be committed where there is data"):
        run_commit(store, FIRST, CommitOptions(expected_tasks=1))
    assert visible_files(store, "/table") == {name: b"old"}


def save_another_attempt(store: StoreOperations) -> None:
    """Let a second attempt of the task commit, so that the first does not count any more."""
    attempt = set_up_attempt(store, FIRST, 0, 1)
    write_attempt(store, FIRST, attempt, {"b": b"22"})
    commit_attempt(store, FIRST, 0, attempt)


@pytest.mark.parametrize("real_directories", [True, False])
def test_a_task_that_commits_between_loading_and_the_freeze_counts(real_directories: bool):
    store, saved = MemoryStore(real_directories=real_directories), []
    write_job(store, FIRST, {0: {"a": b"1"}})

    def overtake(call: StoreCall) -> None:
        if not saved and (call.operation == "move_directory" or call.paths[0].startswith(FIRST.state)):
            if call.operation == "read_state":
                return
            saved.append(call)
            save_another_attempt(store)

    assert run_commit(WrappedStore(store, before=overtake), FIRST).outcome is Outcome.COMMITTED
    assert saved
    assert visible_files(store, "/table") == {"b": b"22"}


@pytest.mark.parametrize("real_directories", [True, False])
def test_a_committer_that_loaded_another_attempt_than_the_record_names_goes_by_the_record(
    real_directories: bool,
):
    """Both have as many manifests; between them a second attempt of the task has saved its own."""
    store, begun = MemoryStore(real_directories=real_directories), []
    write_job(store, FIRST, {0: {"a": b"1"}})

    def overtake(call: StoreCall) -> None:
        is_first_change = (
            call.operation in ("move_directory", "write", "advance") and "/tasks/" not in call.paths[0]
        )
        if is_first_change and not begun and "-manifest.json" not in call.paths[0]:
            begun.append(call)
            save_another_attempt(store)
            stop_before_moving(store, "b")

    assert run_commit(WrappedStore(store, before=overtake), FIRST).moved == 1
    assert begun
    assert visible_files(store, "/table") == {"b": b"22"}


def long_ago(store: StoreOperations, job: JobAttempt, options: CommitOptions) -> CommitResult:
    """Commit as a process whose last sign of life is so old that others think it dead."""
    return commit_job(context(store, options, job=job), read_attempt_state(store, job))


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
    store, woken = MemoryStore(), []
    put_file(store, "/table/a", b"old")
    write_job(store, FIRST, {0: {"b": b"1"}}, mode=ConflictMode.OVERWRITE)
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
    store, woken = MemoryStore(), []
    put_file(store, "/table/a", b"old")
    write_job(store, FIRST, {0: {"b": b"1"}}, mode=ConflictMode.OVERWRITE)

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
    store, woken = MemoryStore(), []
    put_file(store, "/table/a", b"old")
    write_job(store, FIRST, {0: {"b": b"1"}}, mode=ConflictMode.OVERWRITE)

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
