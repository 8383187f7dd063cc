"""Setting up a job makes its directory once, and warns of commits that never ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import CommitConflictError, TaskCommitError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.save_commit_record import save_commit_record
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, fail_at, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import (
    JOB,
    WHEN,
    at,
    context,
    each_crash,
    record_of,
    requests,
)


def test_setting_up_twice_is_refused(dest: Path, store):
    job = new_job_attempt(str(dest), "job_1", 0)
    setup_job(store, job)
    with pytest.raises(TaskCommitError, match="exists already"):
        setup_job(store, job)
    setup_task(store, job, "attempt_1_m_0_0")
    with pytest.raises(TaskCommitError, match="attempt_1_m_0_0: exists already"):
        setup_task(store, job, "attempt_1_m_0_0")


def test_setup_removes_the_marker_of_an_earlier_job_only_if_it_writes_one(dest: Path, store):
    dest.mkdir()
    for number, mark, left in ((1, False, True), (2, True, False)):
        (dest / "_SUCCESS").touch()
        setup_job(store, new_job_attempt(str(dest), f"job_{number}", 0), mark_success=mark)
        assert (dest / "_SUCCESS").exists() is left


def test_setup_warns_of_a_job_whose_commit_never_ended(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), "job_1")
    warnings: list[str] = []
    ray_committer.setup_job(str(dest), "job_2", on_warning=warnings.append)
    assert len(warnings) == 1
    assert "ray-committer commit" in warnings[0]
    assert "job_1" in warnings[0]


def unfinished(store: MemoryStore, number: int) -> None:
    """A job whose commit has begun and not ended."""
    job = new_job_attempt("/table", f"old_{number}", 0)
    write_job(store, job, {0: {"a": b"x"}})
    record = record_of(job_id=job.job_id)
    save_commit_record(context(store, job=job), record)


def test_the_first_job_of_a_destination_is_set_up_without_a_warning():
    store = MemoryStore()
    assert setup_job(store, JOB) == []
    assert store.list_status(JOB.manifests) == []
    assert store.files() == {}


def test_setting_up_beside_running_jobs_warns_of_nothing():
    store = MemoryStore()
    for number in range(3):
        setup_job(store, new_job_attempt("/table", f"running_{number}", 0))
    assert setup_job(store, JOB) == []


@pytest.mark.parametrize("jobs", [1, 4])
def test_each_unfinished_commit_is_warned_of_by_its_command(jobs: int):
    store = MemoryStore()
    for number in range(jobs):
        unfinished(store, number)
    warnings = setup_job(store, JOB)
    assert len(warnings) == jobs
    for number, warning in enumerate(warnings):
        assert f"ray-committer commit memory://test/table --job-id old_{number}" in warning


@pytest.mark.parametrize("jobs", [0, 1, 4])
@pytest.mark.parametrize("mark", [False, True])
def test_setting_up_a_job_costs_two_requests_and_two_listings_per_other_job(jobs: int, mark: bool):
    store = MemoryStore()
    for number in range(jobs):
        setup_job(store, new_job_attempt("/table", f"old_{number}", 0))
    found = requests(store, lambda one: setup_job(one, JOB, mark_success=mark))
    budget = Counter(list_status=2 + 2 * jobs, mkdirs=1)
    assert found == (budget + Counter(delete_file=1) if mark else budget)


def test_a_look_for_data_costs_one_listing_and_the_mark_of_a_replacement_one_write():
    replaces = requests(MemoryStore(), lambda one: setup_job(one, JOB, replaces=("/table",)))
    looks = requests(MemoryStore(), lambda one: setup_job(one, JOB, must_be_empty=True))
    plain = requests(MemoryStore(), lambda one: setup_job(one, JOB))
    assert replaces - plain == Counter(write=1)
    assert looks - plain == Counter(list_status=1)


@pytest.mark.parametrize(
    ("name", "is_data"),
    [("a", True), ("p=1/a", True), ("_SUCCESS", False), ("_delta_log/0", False), (".crc", False)],
)
def test_only_what_readers_see_refuses_a_job_that_needs_an_empty_destination(name: str, is_data: bool):
    store = MemoryStore()
    put_file(store, f"/table/{name}", b"x")
    if is_data:
        with pytest.raises(CommitConflictError, match="/table: holds data already"):
            setup_job(store, JOB, must_be_empty=True)
        assert store.get_status(JOB.temporary) is None
    else:
        assert setup_job(store, JOB, must_be_empty=True) == []


def test_a_job_that_replaces_data_leaves_a_mark_of_that():
    store = MemoryStore()
    setup_job(store, JOB, replaces=("/table",))
    assert store.files(JOB.directory) == {JOB.replaces_data: b""}


@pytest.mark.parametrize(("replaces", "is_refused"), [("/table", True), ("/table/p=1", False)])
def test_only_a_replacement_of_the_whole_destination_is_refused_beside_an_unfinished_commit(
    replaces: str, is_refused: bool
):
    store = MemoryStore()
    unfinished(store, 0)
    if is_refused:
        with pytest.raises(CommitConflictError, match="only then can the destination be replaced"):
            setup_job(store, JOB, replaces=(replaces,))
        assert store.get_status(JOB.job_directory) is None
    else:
        assert len(setup_job(store, JOB, replaces=(replaces,))) == 1


def test_the_next_attempt_of_a_job_is_set_up_beside_the_first_and_is_not_warned_of_it():
    store = MemoryStore()
    unfinished(store, 0)
    assert setup_job(store, new_job_attempt("/table", "old_0", 1)) == []


def test_a_file_in_the_place_of_the_jobs_directory_is_an_error():
    store = MemoryStore()
    put_file(store, JOB.temporary, b"in the way")
    with pytest.raises(FileExistsError):
        setup_job(store, JOB)
    assert store.files() == {JOB.temporary: b"in the way"}


def set_up_everything(store) -> None:
    setup_job(store, JOB, replaces=("/table/p=1",), must_be_empty=True)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_is_an_error_of_the_set_up(when: str, error: type[OSError]):
    calls: list[StoreCall] = []
    set_up_everything(WrappedStore(MemoryStore(), before=calls.append))
    for call in calls:
        with pytest.raises(error):
            set_up_everything(WrappedStore(MemoryStore(), **{when: fail_at(call.number, error)}))


def test_after_a_crash_anywhere_the_next_attempt_can_be_set_up():
    for store in each_crash(MemoryStore, set_up_everything):
        second = new_job_attempt("/table", "job_1", 1)
        assert setup_job(store, second) == []
        assert store.list_status(second.manifests) == []


@pytest.mark.parametrize("operation", ["list_status", "mkdirs"])
def test_the_marker_of_an_earlier_job_is_deleted_last(operation: str):
    store = MemoryStore()
    put_file(store, JOB.success, b"of an earlier job")
    with pytest.raises(PermissionError):
        setup_job(WrappedStore(store, before=at(operation, PermissionError("denied"))), JOB)
    assert store.files() == {JOB.success: b"of an earlier job"}
