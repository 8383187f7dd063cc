"""What no other test noticed when it was broken on purpose, by a mutant of tests/mutants."""

from __future__ import annotations

import pytest

from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CommitterBusyError,
    IncompleteJobError,
    MissingManifestsError,
)
from ray_committer.protocol.paths import new_job_attempt
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
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt

FIRST = new_job_attempt("/table", "job_1", 0)
SECOND = new_job_attempt("/table", "job_2", 0)
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


def stop_before_moving(store: StoreOperations, name: str) -> None:
    """Commit the first job, up to the rename of a file to this name."""

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1] == f"/table/{name}":
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), FIRST)


def test_a_commit_that_begins_while_old_files_are_listed_keeps_its_files():
    """It had no record when the overwrite began; what it has moved is in the list of old files."""
    store = MemoryStore()
    write_job(store, FIRST, {0: {"p=1/a": b"1", "p=1/b": b"2"}})
    write_job(store, SECOND, {0: {"p=1/c": b"3"}})
    replace = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=1",))

    def begin(call: StoreCall) -> None:
        if call.operation == "list_status" and call.paths[0] == "/table/p=1":
            stop_before_moving(store, "p=1/b")

    with pytest.raises(CommitConflictError, match="has written /table/p=1/a"):
        run_commit(WrappedStore(store, before=begin), SECOND, replace)
    assert run_commit(store, FIRST).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"p=1/a": b"1", "p=1/b": b"2"}


def test_a_file_that_changed_to_the_same_size_does_not_replace_an_old_one():
    store = MemoryStore(identity=Identity.MODIFICATION_TIME)
    put_file(store, "/table/a", b"old data")
    write_job(store, FIRST, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    (source,) = store.list_files(FIRST.tasks)
    store.write(source.path, b"bad")
    with pytest.raises(CommitStateUnknownError, match="must not replace /table/a"):
        run_commit(store, FIRST, OVERWRITE)
    assert visible_files(store, "/table") == {"a": b"old data"}


def test_the_marker_of_another_job_does_not_answer_for_one_whose_files_are_gone():
    store = MemoryStore()
    write_job(store, FIRST, {0: {"a": b"1"}})
    write_job(store, SECOND, {0: {"b": b"2"}})
    run_commit(store, FIRST)
    assert store.get_status(FIRST.success) is not None
    store.delete_directory(SECOND.temporary)
    with pytest.raises(MissingManifestsError, match="clean-up"):
        run_commit(store, SECOND, CommitOptions(expected_tasks=1))


def test_who_knows_the_number_of_tasks_does_not_know_what_they_were_to_replace():
    store = MemoryStore()
    put_file(store, "/table/old", b"old")
    write_job(store, FIRST, {0: {"a": b"1"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(IncompleteJobError, match="this job was to replace data"):
        run_commit(store, FIRST, CommitOptions(expected_tasks=1))
    assert visible_files(store, "/table") == {"old": b"old"}


def test_a_committer_that_loaded_another_attempt_than_the_record_names_stops():
    """Both have as many manifests; between them a second attempt of the task has saved its own."""
    store = MemoryStore()
    write_job(store, FIRST, {0: {"a": b"1"}})

    def overtake(call: StoreCall) -> None:
        if call.operation == "write" and call.paths[0].startswith(FIRST.commit_record):
            attempt = set_up_attempt(store, FIRST, 0, 1)
            write_attempt(store, FIRST, attempt, {"b": b"22"})
            commit_attempt(store, FIRST, 0, attempt)
            stop_before_moving(store, "b")

    with pytest.raises(CommitterBusyError, match="has recorded other manifests"):
        run_commit(WrappedStore(store, before=overtake), FIRST)
    assert visible_files(store, "/table") == {}
    assert run_commit(store, FIRST).moved == 1
    assert visible_files(store, "/table") == {"b": b"22"}
