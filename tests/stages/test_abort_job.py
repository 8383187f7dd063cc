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
from ray_committer.protocol.paths import GONE_PREFIX
from ray_committer.protocol.state import Phase
from ray_committer.stages.take_away import take_away
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    fail_at,
    run_abort,
    run_commit,
)
from ray_committer.testing import write_job as write_tasks
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule
from tests.stages.support import JOB, OTHER_JOB, WHEN, at, bring_to, do_at, requests, with_job


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
    assert next(Path(job.directory).rglob("a")).read_text() == "x"
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x"}


@pytest.mark.parametrize("first", ["commit", "abort"])
def test_a_commit_and_an_abort_at_once_cannot_both_happen(store, write_job, dest, tree, first: str):
    """The second one runs whole at every store call of the first, in turn."""
    files = {"p=1/a": "x", "p=2/b": "y"}
    for number in range(1, 100):
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
    assert 5 < number < 99


def running(tasks: int = 2, *, beside_another_job: bool = False) -> MemoryStore:
    """A job whose tasks have committed, and perhaps another one."""
    store = with_job({task: {f"p={task}/a": b"x"} for task in range(tasks)})
    if beside_another_job:
        write_tasks(store, OTHER_JOB, {0: {"b": b"y"}})
    return store


def abort(store) -> bool:
    return run_abort(store, JOB)


LOOK, DECISION = Counter(read_state=1), Counter(advance=1)
DELETIONS = Counter(
    get_status=1,  # at a _SUCCESS that the set-up took by mistake
    move_directory=1,
    read_state=1,
    delete_directory=1,
    remove_empty_directory=2,
)


def is_left(store: MemoryStore) -> bool:
    """Whether anything of the job is there, under its own name or another."""
    names = [one.name for one in store.list_status(JOB.temporary)] if store.get_status("/table") else []
    return JOB.job_id in names or any(name.startswith(GONE_PREFIX) for name in names)


@pytest.mark.parametrize("tasks", [0, 1, 50])
def test_an_abort_costs_as_many_requests_however_many_tasks_there_are(tasks: int):
    store = running(tasks)
    assert requests(store, abort) == LOOK + DECISION + DELETIONS
    assert store.list_status("/table") == []


def test_a_job_that_is_not_there_costs_five_requests_and_no_decision():
    looks = Counter(read_state=1, list_status=2)
    assert requests(MemoryStore(), abort) == looks + Counter(remove_empty_directory=2)
    assert abort(MemoryStore()) is False


def test_an_abort_that_has_decided_reads_that_and_writes_nothing():
    store = running()
    bring_to(store, Phase.ABORTED)
    assert requests(store, abort) == LOOK + DELETIONS
    assert store.list_status("/table") == []


@pytest.mark.parametrize(
    ("phase", "command"),
    [
        (Phase.RECORDED, "ray-committer commit"),
        (Phase.RECORDED, "give it up with: ray-committer abort"),
        (Phase.SEALED, "ray-committer commit"),
        (Phase.COMMITTED, "ray-committer commit"),
        (Phase.UNDOING, "ray-committer abort"),
    ],
)
def test_a_job_whose_commit_has_begun_keeps_every_file(phase: Phase, command: str):
    store = running()
    bring_to(store, phase)
    before = store.files()
    with pytest.raises(CommitRecordExistsError, match=f"{command} memory://test/table"):
        abort(store)
    assert store.files() == before


def test_a_declaration_keeps_nobody_from_aborting():
    store = running()
    bring_to(store, Phase.DECLARED)
    assert abort(store) is True
    assert store.list_status("/table") == []


def test_a_job_that_hadoops_own_committer_set_up_is_decided_before_it_is_deleted():
    store = MemoryStore()
    store.mkdirs(JOB.manifests)  # none of its tasks has ended
    calls: list[StoreCall] = []
    assert abort(WrappedStore(store, before=calls.append)) is True
    decided = next(n for n, call in enumerate(calls) if call.operation == "move_directory")
    (written,) = [call.paths[0] for call in calls if call.operation == "write"]
    assert calls[decided].paths[1] == JOB.state
    assert written.rpartition("/")[2].startswith("aborted.")
    deletions = [n for n, call in enumerate(calls) if call.operation == "delete_directory"]
    assert deletions
    assert min(deletions) > decided
    assert store.list_status("/table") == []


def test_of_a_job_that_another_process_has_ended_without_a_trace_nothing_is_claimed():
    store = running()
    other = do_at("advance", lambda: abort(store))
    with pytest.raises(CommitStateUnknownError, match="committed or aborted"):
        abort(WrappedStore(store, before=other))
    assert store.list_status("/table") == []


def test_a_job_that_another_process_has_committed_meanwhile_is_not_aborted():
    store = running()
    other = do_at("advance", lambda: run_commit(store, JOB))
    with pytest.raises(CommitRecordExistsError, match="was committed by another process"):
        abort(WrappedStore(store, before=other))


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_leaves_an_abort_that_the_same_command_finishes(when: str, error):
    for number in range(1, requests(running(), abort).total() + 1):
        store = running(beside_another_job=True)
        other = store.files(OTHER_JOB.directory)
        with contextlib.suppress(CommitStateUnknownError):
            abort(WrappedStore(store, **{when: fail_at(number, error)}))
        abort(store)
        assert not is_left(store)
        assert store.files() == other


@pytest.mark.parametrize("number", [1, 2])
def test_nothing_is_deleted_before_the_decision_stands(number: int):
    store = running()
    before = store.files()
    with pytest.raises(CommitStateUnknownError, match="run the same command again"):
        abort(WrappedStore(store, before=fail_at(number)))
    assert before.items() <= store.files().items()


@pytest.mark.parametrize(
    ("operation", "error"),
    [("move_directory", CommitAbortedError), ("delete_directory", JobNotFoundError)],
)
def test_a_deletion_that_fails_leaves_a_job_that_can_only_be_aborted(operation: str, error):
    store = running()
    denied = WrappedStore(store, before=at(operation, PermissionError("denied")))
    with pytest.raises(CommitStateUnknownError, match="possibly not complete: run the same command"):
        abort(denied)
    with pytest.raises(error):
        run_commit(store, JOB)
    is_known = operation == "move_directory"  # whose it was, nobody can say once it is taken away
    assert abort(store) is is_known
    assert store.list_status("/table") == []


def test_a_deletion_that_was_cut_off_is_finished_by_the_next_abort():
    store, calls = running(5), list[StoreCall]()
    abort(WrappedStore(store.copy(), before=calls.append))
    (number,) = [call.number for call in calls if call.operation == "delete_directory"]
    faulty = FaultSchedule(0, number, (Fault(FaultKind.CRASH_WITHIN, number),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        abort(faulty)
    abort(store)
    assert store.list_status("/table") == []


@pytest.mark.parametrize("has_directories", [True, False])
def test_what_is_left_of_another_job_is_no_reason_to_say_that_a_committed_one_was_aborted(
    has_directories: bool,
):
    store = with_job(
        {0: {"b": b"y"}}, store=MemoryStore(real_directories=has_directories), job=OTHER_JOB
    )
    aborted = bring_to(store, Phase.ABORTED, job=OTHER_JOB)
    take_away(store, OTHER_JOB, aborted)  # and its process ends
    write_tasks(store, JOB, {0: {"a": b"x"}})
    run_commit(store, JOB)
    assert abort(store) is False
