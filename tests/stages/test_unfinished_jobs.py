"""What an unfinished job has moved is not old data of another one; what an ended one has written is."""

from __future__ import annotations

from collections import Counter

import pytest

from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import CommitConflictError
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stages.unfinished_jobs import refuse_files_of_unfinished
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from tests.stages.support import at, context, requests

FIRST = new_job_attempt("/table", "job_1", 0)
SECOND = new_job_attempt("/table", "job_2", 0)
REPLACE = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=("/table/p=1",))
MOVED = {"p=1/a": b"1"}
NEW = {"p=1/new": b"new"}


def crash_before(store: MemoryStore, operation: str, end: str, job: JobAttempt = FIRST) -> None:
    """Commit, but die before the first request of this kind."""

    def crash(call: StoreCall) -> None:
        if call.operation == operation and call.paths[-1].endswith(end):
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), job)


@pytest.fixture
def store() -> MemoryStore:
    """Two jobs, of which the first writes to the partition that the second replaces, and elsewhere."""
    store = MemoryStore()
    write_job(store, FIRST, {0: MOVED, 1: {"p=2/b": b"2"}})
    write_job(store, SECOND, {0: NEW})
    return store


def test_a_file_of_an_unfinished_job_is_refused_by_its_name_and_that_of_the_job(store: MemoryStore):
    crash_before(store, "rename", "/b")
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, SECOND, REPLACE)
    assert "has written /table/p=1/a" in str(caught.value)
    assert "ray-committer commit memory://test/table --job-id job_1" in str(caught.value)
    assert store.get_status(SECOND.commit_record) is None
    assert run_commit(store, FIRST).outcome is Outcome.COMMITTED
    assert run_commit(store, SECOND, REPLACE).replaced == 1
    assert visible_files(store, "/table") == {"p=2/b": b"2"} | NEW


def test_the_files_of_every_task_are_known(store: MemoryStore):
    crash_before(store, "rename", "_COMMITTED")
    for root, path in [("/table/p=1", "/table/p=1/a"), ("/table/p=2", "/table/p=2/b")]:
        options = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=(root,))
        with pytest.raises(CommitConflictError, match=path):
            run_commit(store, SECOND, options)


def test_an_unfinished_job_that_wrote_elsewhere_is_in_nobodys_way(store: MemoryStore):
    crash_before(store, "rename", "/a")
    store.write("/table/p=1/old", b"old")
    assert run_commit(store, SECOND, REPLACE).replaced == 1
    assert run_commit(store, FIRST).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == MOVED | {"p=2/b": b"2"} | NEW


def test_an_append_beside_an_unfinished_job_is_in_nobodys_way(store: MemoryStore):
    crash_before(store, "rename", "/b")
    assert run_commit(store, SECOND).outcome is Outcome.COMMITTED
    assert run_commit(store, FIRST).outcome is Outcome.COMMITTED


def test_what_has_the_name_of_an_aborted_jobs_file_is_old_data(store: MemoryStore):
    def crash(call: StoreCall) -> None:
        if call.operation == "delete_directory":
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_abort(WrappedStore(store, before=crash), FIRST)
    assert store.get_status(FIRST.commit_record) is not None
    store.mkdirs("/table/p=1")
    store.write("/table/p=1/a", b"not of that job")
    assert run_commit(store, SECOND, REPLACE).replaced == 1
    assert visible_files(store, "/table") == NEW


def test_a_job_that_has_reached_its_commit_point_may_be_replaced(store: MemoryStore):
    crash_before(store, "write", "_SUCCESS.tmp")
    assert store.get_status(FIRST.commit_point) is not None
    assert run_commit(store, SECOND, REPLACE).replaced == 1


@pytest.mark.parametrize("moment", ["the record is read", "a manifest is read"])
def test_a_job_that_ends_while_it_is_looked_at_may_be_replaced(store: MemoryStore, moment: str):
    crash_before(store, "rename", "/b")
    watched = FIRST.commit_record if moment == "the record is read" else FIRST.manifests

    def finish(call: StoreCall) -> None:
        looked_at = call.operation == "read" and call.paths[0].startswith(watched)
        if looked_at and store.get_status(FIRST.directory) is not None:
            run_commit(store, FIRST)

    assert run_commit(WrappedStore(store, before=finish), SECOND, REPLACE).replaced == 1
    assert visible_files(store, "/table") == {"p=2/b": b"2"} | NEW


OLD = [ReplacedFile("/table/p=1/of_nobody", 1)]


def refuse(store, unfinished: list[JobAttempt], old: list[ReplacedFile]) -> None:
    refuse_files_of_unfinished(context(store, job=SECOND), unfinished, old)


@pytest.mark.parametrize(("unfinished", "old"), [([], []), ([FIRST], []), ([], OLD)])
def test_where_nothing_is_replaced_or_nothing_unfinished_nothing_is_read(store, unfinished, old):
    crash_before(store, "rename", "/b")
    assert requests(store, lambda one: refuse(one, unfinished, old)) == Counter()


def test_an_unfinished_job_costs_one_read_of_its_record_and_one_per_manifest(store: MemoryStore):
    crash_before(store, "rename", "/b")
    assert requests(store, lambda one: refuse(one, [FIRST], OLD)) == Counter(read=1 + 2)


@pytest.mark.parametrize("end", ["_COMMIT.json", "-manifest.json"])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_an_unfinished_job_that_cannot_be_read_is_an_error_and_not_out_of_the_way(
    store, end: str, error
):
    crash_before(store, "rename", "/b")
    faulty = WrappedStore(store, before=at("read", error("simulated"), end))
    with pytest.raises(error):
        refuse(faulty, [FIRST], OLD)
