"""Clean-up removes the job's own directory and nothing else, and finishes what it was cut off in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import LeaseLostError
from ray_committer.events import Event, Notice
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.stages.cleanup_job import FEW_ATTEMPTS, cleanup_job
from ray_committer.testing import (
    Fault,
    FaultKind,
    FaultSchedule,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    fail_at,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, OTHER_JOB, WHEN, at, context, each_crash, record_of, requests


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


def attempts(number: int) -> CommitRecord:
    """A record of so many task attempts."""
    ids = [f"attempt_job_1_m_{task:06d}_0" for task in range(number)]
    return record_of(tuple(ManifestRef(one, 1, "", 1, 1, task_attempt_id=one) for one in ids))


def committed(tasks: int = 2, *, beside_another_job: bool = False) -> MemoryStore:
    """A job at its commit point, with files that its tasks left behind."""
    store = MemoryStore()
    write_job(store, JOB, {task: {"left": b"x"} for task in range(tasks)})
    store.write(JOB.commit_point, b"{}")
    if beside_another_job:
        write_job(store, OTHER_JOB, {0: {"b": b"y"}})
    return store


def clean(store, tasks: int = 2, on_event: Callable[[Event], None] = lambda _: None) -> bool:
    return cleanup_job(context(store, emit=on_event), attempts(tasks))


FEW_REQUESTS = Counter(delete_directory=3, remove_empty_directory=2)


@pytest.mark.parametrize(
    ("tasks", "more"), [(0, 0), (1, 0), (FEW_ATTEMPTS, 0), (FEW_ATTEMPTS + 1, FEW_ATTEMPTS + 1)]
)
def test_few_attempts_go_with_their_parent_and_many_one_by_one(tasks: int, more: int):
    store = committed(tasks)
    found = requests(store, lambda one: clean(one, tasks))
    assert found == FEW_REQUESTS + Counter(delete_directory=more)
    assert store.files() == {}
    assert store.list_status("/table") == []


def test_where_nothing_is_left_there_is_nothing_to_do():
    assert clean(MemoryStore()) is True
    store = committed()
    assert [clean(store), clean(store)] == [True, True]


@pytest.mark.parametrize("tasks", [2, FEW_ATTEMPTS + 1])
def test_what_failed_attempts_left_goes_as_well(tasks: int):
    store = committed(tasks)
    put_file(store, f"{JOB.tasks}/attempt_job_1_m_000000_7/left", b"x")
    clean(store, tasks)
    assert store.files() == {}


@pytest.mark.parametrize("tasks", [2, FEW_ATTEMPTS + 1])
def test_another_job_keeps_every_file_and_directory(tasks: int):
    store = committed(tasks, beside_another_job=True)
    before = store.files(OTHER_JOB.directory)
    assert clean(store, tasks) is True
    assert store.files() == before
    assert store.get_status(JOB.job_directory) is None


@pytest.mark.parametrize("directory", ["/elsewhere", "/table/p=1", "/table/_temporary/job_2/00/tasks/a"])
def test_an_attempt_whose_directory_is_not_below_the_jobs_tasks_is_not_deleted(directory: str):
    store = committed(FEW_ATTEMPTS + 1)
    put_file(store, f"{directory}/precious", b"x")
    refs = [*attempts(FEW_ATTEMPTS + 1).manifests]
    refs.append(ManifestRef("odd", 1, "", 1, 1, task_attempt_directory=directory))
    assert cleanup_job(context(store), record_of(tuple(refs))) is True
    assert store.files() == {f"{directory}/precious": b"x"}


@pytest.mark.parametrize("tasks", [2, FEW_ATTEMPTS + 1])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_deletion_that_fails_is_reported_and_the_next_run_finishes(tasks: int, when: str, error):
    total = requests(committed(tasks), lambda one: clean(one, tasks)).total()
    for number in range(1, total + 1):
        store, events = committed(tasks), list[Event]()
        faulty = WrappedStore(store, **{when: fail_at(number, error)})
        assert clean(faulty, tasks, events.append) is False
        (notice,) = [event for event in events if isinstance(event, Notice)]
        assert f"{JOB.directory}: the job is committed but was not cleaned up" in notice.text
        assert clean(store, tasks) is True
        assert store.list_status("/table") == []


def test_a_worker_that_can_make_no_more_requests_is_reported_like_any_failure():
    store = committed()
    lost = WrappedStore(store, before=at("delete_directory", LeaseLostError("the lease is over")))
    assert clean(lost) is False
    assert store.get_status(JOB.commit_point) is not None


@pytest.mark.parametrize("tasks", [2, FEW_ATTEMPTS + 1])
@pytest.mark.parametrize("number", range(1, 3))
def test_the_commit_point_goes_last_of_all(tasks: int, number: int):
    store = committed(tasks)
    denied = at("delete_directory", PermissionError("denied"), ("/manifests", "/tasks")[number - 1])
    assert clean(WrappedStore(store, before=denied), tasks) is False
    assert store.get_status(JOB.commit_point) is not None


def test_after_a_crash_anywhere_the_next_run_leaves_nothing_of_the_job():
    for store in each_crash(lambda: committed(beside_another_job=True), clean):
        assert clean(store) is True
        assert store.get_status(JOB.job_directory) is None
        assert len(store.files(OTHER_JOB.directory)) == 2
