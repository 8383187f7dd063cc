"""One run of a commit: which stages it enters, and what each failed request makes of it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.commit_report import CommitReport, Outcome
from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    JobNotFoundError,
    MissingManifestsError,
    RayCommitterError,
)
from ray_committer.events import CommitStarted, Event, JobLoaded, StageStarted
from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.find_job import read_attempt_state
from ray_committer.stages.save_commit_record import load_commit_record, save_commit_record
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    fail_at,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, WHEN, SyncedStore, at, context, each_crash, record_of, requests

TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}, 2: {}}
NEW = {"p=1/a": b"a", "p=1/c": b"ccc", "p=2/b": b"bb"}
OLD = {"p=1/old": b"old", "p=2/b": b"old too"}
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE, rename_attempts=1)
APPEND = CommitOptions(rename_attempts=1)

DECIDE = [names.LOAD_MANIFESTS, names.PREFLIGHT, names.SAVE_RECORD]
MOVE = [names.CREATE_DIRECTORIES, names.RENAME_FILES]
END = [names.COMMIT_POINT, names.SAVE_SUCCESS, names.CLEANUP]


def prepared(store: MemoryStore | None = None, tasks: Any = TASKS) -> MemoryStore:
    store = store or MemoryStore()
    write_job(store, JOB, tasks)
    return store


def with_old_data() -> MemoryStore:
    store = MemoryStore()
    for name, data in OLD.items():
        put_file(store, f"/table/{name}", data)
    write_job(store, JOB, TASKS, mode=ConflictMode.OVERWRITE)
    return store


def commit(store, options: CommitOptions = APPEND, **how: Any) -> CommitReport:
    emit = how.pop("emit", lambda _: None)
    state = read_attempt_state(store, JOB)
    return commit_job(context(store, options, emit=emit), state, nonce="nonce", **how)


def stages(store, options: CommitOptions = APPEND, **how: Any) -> list[str]:
    """The stages that a run enters, without the one around them."""
    events: list[Event] = []
    commit(store, options, emit=events.append, **how)
    first, *entered = [event.stage for event in events if isinstance(event, StageStarted)]
    assert first == names.COMMIT_JOB
    return entered


@pytest.mark.parametrize(
    ("new", "options", "entered"),
    [
        (prepared, {}, [*DECIDE, *MOVE, names.VALIDATE, *END]),
        (prepared, {"validate": False}, [*DECIDE, *MOVE, *END]),
        (prepared, {"validate": False, "cleanup": False}, [*DECIDE, *MOVE, *END[:-1]]),
        (prepared, {"validate": False, "mark_success": False}, [*DECIDE, *MOVE, END[0], END[2]]),
        (prepared, {"mode": ConflictMode.OVERWRITE}, [*DECIDE, *MOVE, names.VALIDATE, *END]),
        (
            with_old_data,
            {"mode": ConflictMode.OVERWRITE},
            [*DECIDE, *MOVE, names.VALIDATE, names.REMOVE_REPLACED, *END],
        ),
        (
            lambda: prepared(SyncedStore()),
            {"durable": True},
            [*DECIDE, *MOVE, names.SYNC, names.VALIDATE, *END],
        ),
    ],
)
def test_a_commit_enters_the_stages_that_it_needs_in_this_order(
    new: Callable[[], MemoryStore], options: dict[str, Any], entered: list[str]
):
    assert stages(new(), CommitOptions(**options)) == entered


def test_a_commit_that_only_records_stops_before_anything_is_visible():
    store = prepared()
    assert stages(store, record_only=True) == DECIDE
    assert visible_files(store, "/table") == {}
    assert commit(store, record_only=True).outcome is Outcome.RECORDED


@pytest.mark.parametrize(
    ("operation", "end", "entered"),
    [
        ("write", "nonce.tmp", [*DECIDE, *MOVE, names.VALIDATE, *END]),
        ("mkdirs", "p=1", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("rename", "/c", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("rename", "_COMMITTED", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("replace", "_SUCCESS", END[1:]),
        ("delete_directory", "/tasks", END[1:]),
        ("remove_empty_directory", "/job_1", []),
    ],
)
def test_a_run_enters_where_the_last_one_stopped(operation: str, end: str, entered: list[str]):
    store = prepared()
    with pytest.raises(SimulatedCrash):
        commit(WrappedStore(store, before=at(operation, SimulatedCrash(), end)))
    assert stages(store) == entered
    assert visible_files(store, "/table") == NEW


@pytest.mark.parametrize(
    ("tasks", "files", "size"),
    [({0: {}}, 0, 0), ({0: {"a": b"x"}}, 1, 1), ({n: {f"f{n}": b"xy"} for n in range(40)}, 40, 80)],
)
def test_the_report_counts_what_became_visible(tasks: Any, files: int, size: int):
    report = commit(prepared(tasks=tasks))
    assert report.outcome is Outcome.COMMITTED
    assert (report.manifests, report.files, report.bytes) == (len(tasks), files, size)
    assert (report.moved, report.validated) == (files, files)
    assert (report.resumed, report.error, report.notices) == (False, None, [])


def test_a_job_without_a_task_is_refused_and_keeps_its_directory():
    store = prepared(tasks={})
    with pytest.raises(RayCommitterError, match="holds no task manifest") as caught:
        commit(store)
    assert caught.value.exit_code == 1
    assert store.get_status(JOB.manifests) is not None


def test_what_is_left_of_a_committed_job_costs_seven_requests():
    store = prepared()
    with pytest.raises(SimulatedCrash):
        commit(WrappedStore(store, after=at("rename", SimulatedCrash(), "_COMMITTED")))
    found = requests(store, commit)
    marker = Counter(read=1, write=1, replace=1)
    clean = Counter(delete_directory=3, remove_empty_directory=2)
    assert found == Counter(list_status=1) + marker + clean


def test_a_job_that_is_committed_and_gone_costs_one_read_beside_the_look_at_its_directory():
    store = prepared()
    commit(store)
    found = requests(store, commit)
    assert found == Counter(list_status=1, read=1, remove_empty_directory=2)
    assert commit(store).outcome is Outcome.ALREADY_COMMITTED


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
@pytest.mark.parametrize(("new", "options"), [(prepared, APPEND), (with_old_data, OVERWRITE)])
def test_a_request_that_fails_loses_nothing_and_the_same_command_finishes(
    new, options, when: str, error
):
    calls: list[StoreCall] = []
    commit(WrappedStore(new(), before=calls.append), options)
    for call in calls[1:]:  # the first looks at the job's directory, before the commit
        store = new()
        with contextlib.suppress(RayCommitterError):
            commit(WrappedStore(store, **{when: fail_at(call.number, error)}), options)
        seen = visible_files(store, "/table")
        gone = visible_files(new(), "/table").keys() - seen.keys()
        assert not gone or NEW.items() <= seen.items()
        commit(store, options)
        assert visible_files(store, "/table") == NEW
        assert store.get_status(JOB.temporary) is None


@pytest.mark.parametrize(("new", "options"), [(prepared, APPEND), (with_old_data, OVERWRITE)])
def test_after_a_crash_anywhere_the_same_command_finishes(new, options: CommitOptions):
    for store in each_crash(new, lambda one: commit(one, options)):
        commit(store, options)
        assert visible_files(store, "/table") == NEW
        assert store.get_status(JOB.temporary) is None


@pytest.mark.parametrize(
    ("operation", "end", "error", "exit_code"),
    [
        ("list_status", "/manifests", CommitAbortedError, 1),
        ("read", "-manifest.json", CommitAbortedError, 1),
        ("write", "nonce.tmp", CommitAbortedError, 1),
        ("rename", "_COMMIT.json", CommitStateUnknownError, 3),
        ("mkdirs", "p=1", CommitStateUnknownError, 3),
        ("rename", "/a", CommitStateUnknownError, 3),
        ("list_status", "p=1", CommitStateUnknownError, 3),
        ("rename", "_COMMITTED", CommitStateUnknownError, 3),
        ("write", "_SUCCESS.tmp", CommitStateUnknownError, 3),
    ],
)
def test_a_failed_request_is_harmless_before_the_record_and_stops_in_the_middle_after_it(
    operation: str, end: str, error: type[RayCommitterError], exit_code: int
):
    store, reports = prepared(), list[CommitReport]()
    faulty = WrappedStore(store, before=at(operation, PermissionError(13, "denied", end), end))
    with pytest.raises(error, match="run the same command") as caught:
        commit(faulty, on_report=reports.append)
    assert caught.value.exit_code == exit_code
    assert [report.outcome for report in reports] == [Outcome.FAILED]
    assert reports[0].error == str(caught.value)


def test_what_the_record_promises_binds_a_run_that_was_asked_for_less():
    store = prepared(SyncedStore())
    commit(store, CommitOptions(durable=True), record_only=True)
    store.synced.clear()
    assert names.SYNC in stages(store, CommitOptions(durable=False))
    assert "/table/p=1" in store.synced


def test_the_marker_of_a_durable_commit_is_forced_to_disk_by_whoever_finishes_it():
    store = prepared(SyncedStore())
    with pytest.raises(SimulatedCrash):
        commit(
            WrappedStore(store, after=at("rename", SimulatedCrash(), "_COMMITTED")),
            CommitOptions(durable=True),
        )
    store.synced.clear()
    commit(store, CommitOptions(durable=False))
    assert store.synced == [JOB.success, "/table"]


def test_a_run_that_is_asked_for_no_marker_writes_the_one_that_the_record_promises():
    store = prepared()
    commit(store, record_only=True)
    commit(store, CommitOptions(mark_success=False))
    assert store.get_status(JOB.success) is not None


def test_the_job_is_reported_before_its_files_move():
    events: list[Event] = []
    commit(prepared(), emit=events.append)
    assert isinstance(events[0], CommitStarted)
    (at_load,) = [number for number, event in enumerate(events) if isinstance(event, JobLoaded)]
    assert events[at_load] == JobLoaded(3, 3, 6, False)
    assert StageStarted(names.RENAME_FILES) in events[at_load:]


def test_a_job_that_is_being_aborted_is_not_committed():
    store = prepared()
    save_commit_record(context(store), record_of(aborted=True))
    with pytest.raises(CommitAbortedError, match="ray-committer abort"):
        commit(store)
    assert load_commit_record(context(store), committed=False).aborted
    assert visible_files(store, "/table") == {}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (CommitOptions(), JobNotFoundError),
        (CommitOptions(expected_tasks=3), MissingManifestsError),
    ],
)
@pytest.mark.parametrize("leaves_tasks", [False, True])
def test_a_job_whose_manifests_are_gone_is_not_taken_for_a_committed_one(
    options: CommitOptions, error: type[RayCommitterError], leaves_tasks: bool
):
    store = prepared()
    store.delete_directory(JOB.manifests if leaves_tasks else JOB.temporary)
    before = store.files()
    with pytest.raises(error, match="another job's clean-up may have deleted"):
        commit(store, options)
    assert store.files() == before
