"""An abort decides by the record, then deletes the job attempt and nothing else."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    JobNotFoundError,
    RayCommitterError,
)
from ray_committer.stages.save_commit_record import save_commit_point, save_commit_record
from ray_committer.testing import (
    Fault,
    FaultKind,
    FaultSchedule,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    fail_at,
    run_abort,
    run_commit,
)
from ray_committer.testing import write_job as write_tasks
from tests.stages.support import (
    JOB,
    OTHER_JOB,
    WHEN,
    before_the_write,
    context,
    each_crash,
    record_of,
    requests,
)


def test_abort_deletes_the_job_and_only_that(store, write_job, dest: Path, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "x"}}, job_id="job_2")
    assert ray_committer.abort_job(str(dest), "job_1") is True
    assert Path(other.manifests).is_dir()
    assert ray_committer.abort_job(str(dest), "job_2") is True
    assert not (dest / "_temporary").exists()
    assert tree() == {}


def test_abort_after_the_record_deletes_nothing_and_names_the_command(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    with pytest.raises(CommitRecordExistsError, match="ray-committer commit"):
        ray_committer.abort_job(str(dest))
    assert next(Path(job.tasks).rglob("a")).read_text() == "x"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("first", ["commit", "abort"])
def test_a_commit_and_an_abort_at_once_cannot_both_happen(store, write_job, dest, tree, first: str):
    """The second one runs whole at every store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y"}
    for number in range(1, 40):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: files, 1: {}})
        commit, abort = partial(run_commit, job=job), partial(run_abort, job=job)
        runs = {"commit": (commit, abort), "abort": (abort, commit)}[first]
        done: list[object] = []
        countdown = iter(range(number))

        def other(call: StoreCall, countdown=countdown, runs=runs, done=done) -> None:
            if next(countdown, None) is None and not done:
                done.append("the other ran")
                with contextlib.suppress(RayCommitterError):
                    done.append(runs[1](store))

        with contextlib.suppress(RayCommitterError):
            runs[0](WrappedStore(store, before=other))
        if not done:
            break
        with contextlib.suppress(JobNotFoundError, CommitAbortedError):
            ray_committer.commit_job(str(dest), "job_1")
        with contextlib.suppress(CommitRecordExistsError):
            ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() in (files, {}), number
        assert (dest / "_SUCCESS").exists() == bool(tree())
        assert not (dest / "_temporary").exists()
    assert number > 4


def test_an_abort_that_crashed_is_finished_by_an_abort_and_by_nothing_else(store, write_job, dest, tree):
    for number in range(1, 9):
        shutil.rmtree(dest, ignore_errors=True)
        job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
        countdown = iter(range(number))

        def crash(call: StoreCall, countdown=countdown) -> None:
            if next(countdown, None) is None:
                raise SimulatedCrash(call)

        with contextlib.suppress(SimulatedCrash):
            run_abort(WrappedStore(store, before=crash), job)
        if Path(job.commit_record).exists():
            with pytest.raises(CommitAbortedError, match="ray-committer abort"):
                ray_committer.commit_job(str(dest), "job_1")
        ray_committer.abort_job(str(dest), "job_1", options=CommitOptions(job_attempt=0))
        assert tree() == {}
        assert not (dest / "_temporary").exists()


def test_an_abort_that_a_record_overtakes_deletes_nothing(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    store = before_the_write(lambda: ray_committer.record_job(str(dest), "job_1"))
    with pytest.raises(CommitRecordExistsError):
        run_abort(store, job)
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


def running(tasks: int = 2, *, beside_another_job: bool = False) -> MemoryStore:
    """A job whose tasks have committed, and perhaps another one."""
    store = MemoryStore()
    write_tasks(store, JOB, {task: {f"p={task}/a": b"x"} for task in range(tasks)})
    if beside_another_job:
        write_tasks(store, OTHER_JOB, {0: {"b": b"y"}})
    return store


def abort(store) -> bool:
    return run_abort(store, JOB)


DECISION = Counter(write=1, rename=1)
DELETIONS = Counter(delete_directory=3, remove_empty_directory=2)


@pytest.mark.parametrize("tasks", [0, 1, 50])
def test_an_abort_costs_as_many_requests_however_many_tasks_there_are(tasks: int):
    store = running(tasks)
    assert requests(store, abort) == Counter(list_status=1) + DECISION + DELETIONS
    assert store.list_status("/table") == []


def test_a_job_that_is_not_there_costs_three_requests_and_no_decision():
    assert requests(MemoryStore(), abort) == Counter(list_status=1, remove_empty_directory=2)
    assert abort(MemoryStore()) is False


def test_an_abort_can_be_repeated():
    store = running()
    assert [abort(store), abort(store)] == [True, False]


def test_an_abort_that_has_decided_reads_that_and_writes_nothing():
    store = running()
    save_commit_record(context(store), record_of(aborted=True))
    assert requests(store, abort) == Counter(list_status=1, read=1) + DELETIONS
    assert store.list_status("/table") == []


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_job_whose_commit_has_begun_keeps_every_file(is_committed: bool):
    store = running()
    save_commit_record(context(store), record_of())
    if is_committed:
        save_commit_point(context(store), record_of())
    before = store.files()
    with pytest.raises(CommitRecordExistsError, match="ray-committer commit memory://test/table"):
        abort(store)
    assert store.files() == before


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_leaves_an_abort_that_the_same_command_finishes(when: str, error):
    for number in range(1, requests(running(), abort).total() + 1):
        store = running(beside_another_job=True)
        with contextlib.suppress(CommitStateUnknownError):
            abort(WrappedStore(store, **{when: fail_at(number, error)}))
        abort(store)
        assert store.get_status(JOB.job_directory) is None
        assert len(store.files(OTHER_JOB.directory)) == 2


@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_is_deleted_before_the_decision_stands(number: int):
    store = running()
    before = store.files()
    with pytest.raises(CommitStateUnknownError, match="run the same command again"):
        abort(WrappedStore(store, before=fail_at(number)))
    assert before.items() <= store.files().items()


@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_deletion_that_fails_leaves_a_job_that_can_only_be_aborted(number: int):
    store = running()
    with pytest.raises(CommitStateUnknownError, match="may be half aborted, run the same command"):
        abort(WrappedStore(store, before=fail_at(number, PermissionError)))
    with pytest.raises(CommitAbortedError):
        run_commit(store, JOB)


def test_after_a_crash_anywhere_the_next_abort_leaves_nothing_of_the_job():
    for store in each_crash(lambda: running(beside_another_job=True), abort):
        abort(store)
        assert store.get_status(JOB.job_directory) is None
        assert len(store.files(OTHER_JOB.directory)) == 2


@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_deletion_that_was_cut_off_is_finished_by_the_next_abort(number: int):
    store = running(5)
    faulty = FaultSchedule(0, number, (Fault(FaultKind.CRASH_WITHIN, number),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        abort(faulty)
    abort(store)
    assert store.list_status("/table") == []
