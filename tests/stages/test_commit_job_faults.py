"""One run of a commit: which stages it enters, and what each failed request makes of it."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    CommitterBusyError,
    JobGoneError,
    RayCommitterError,
    RecordGoneError,
)
from ray_committer.events import CommitStarted, Event, JobLoaded, StageStarted
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import adopt_state, advance
from ray_committer.job_files.owners import DEAD_SECONDS
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import ConflictMode, Heartbeat, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages import rename_files
from ray_committer.stages.commit_job import commit_job
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
from ray_committer.testing.harness import put_file
from tests.stages.support import (
    ALIVE,
    JOB,
    NOW,
    SyncedStore,
    at,
    bring_to,
    calls_of,
    context,
    died,
    do_at,
    record_of,
    requests,
    state_of,
)

TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}, 2: {}}
NEW = {"p=1/a": b"a", "p=1/c": b"ccc", "p=2/b": b"bb"}
OLD = {"p=1/old": b"old", "p=2/b": b"old too"}
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
APPEND = CommitOptions()

DECIDE = [names.LOAD_MANIFESTS, names.PREFLIGHT, names.SAVE_RECORD]
MOVE = [names.CREATE_DIRECTORIES, names.RENAME_FILES]
END = [names.COMMIT_POINT, names.SAVE_SUCCESS, names.CLEANUP]


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename_files, "ATTEMPTS", 1)


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


def commit(store, options: CommitOptions = APPEND, **how: Any) -> CommitResult:
    emit = how.pop("emit", lambda _: None)
    state = read_job(store, JOB)
    return commit_job(context(store, options, emit=emit), state, **how)


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
            [*DECIDE, *MOVE, names.VALIDATE, names.RENAME_FILES, names.REMOVE_REPLACED, *END],
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


def test_who_has_recorded_a_job_waits_for_another_process_that_has_gone_on_with_it_since():
    """It hangs after its record until its declaration is no sign of life any more."""
    store, now = prepared(SyncedStore()), [NOW]

    def hang(call: StoreCall) -> None:
        if call.operation == "sync" and now == [NOW] and state_of(store).phase is Phase.RECORDED:
            now[0] += 10 * round(DEAD_SECONDS * 1000)
            store.write(JOB.heartbeat, encode(Heartbeat(owner=ALIVE, at_milliseconds=now[0])))
            raise OSError(5, "simulated", call.paths[0])

    options = CommitOptions(durable=True, conflict_wait_seconds=0)
    found = context(WrappedStore(store, before=hang), options)
    with pytest.raises(CommitterBusyError, match="process 1 on elsewhere"):
        commit_job(replace(found, now_milliseconds=lambda: now[0]), read_job(store, JOB))
    assert visible_files(store, "/table") == {}
    assert state_of(store).phase is Phase.RECORDED


def test_a_commit_that_only_records_stops_before_anything_is_visible():
    store = prepared()
    assert stages(store, record_only=True) == DECIDE
    assert visible_files(store, "/table") == {}
    assert commit(store, record_only=True).outcome is Outcome.RECORDED


@pytest.mark.parametrize(
    ("operation", "end", "entered"),
    [
        ("move_directory", "/frozen", [*DECIDE, *MOVE, names.VALIDATE, *END]),
        ("advance", "declared", [*DECIDE, *MOVE, names.VALIDATE, *END]),
        ("advance", "recorded", [*DECIDE, *MOVE, names.VALIDATE, *END]),
        ("mkdirs", "p=1", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("rename", "/c", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("advance", "committed", [names.LOAD_MANIFESTS, *MOVE, names.VALIDATE, *END]),
        ("replace", "_SUCCESS", END[1:]),
        ("delete_directory", "", []),
        ("remove_empty_directory", "/job_1", []),
    ],
)
def test_a_run_enters_where_the_last_one_stopped(operation: str, end: str, entered: list[str]):
    store = died(prepared(), commit, operation, end)
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


def test_what_is_left_of_a_committed_job_costs_eleven_requests():
    store = died(prepared(), commit, "advance", "committed", when="after")
    found = requests(store, commit)
    marker = Counter(read=1, write=1, replace=1)
    clean = Counter(
        list_status=1, move_directory=1, read_state=1, delete_directory=1, remove_empty_directory=2
    )
    assert found == Counter(read_state=1) + marker + clean


def test_a_job_that_is_committed_and_gone_costs_two_reads_and_a_sweep_beside_the_look_at_its_directory():
    store = prepared()
    commit(store)
    found = requests(store, commit)
    look, sweep = Counter(read_state=1, list_status=1), Counter(list_status=1)
    assert found == look + sweep + Counter(read=2, remove_empty_directory=2)
    assert commit(store).outcome is Outcome.ALREADY_COMMITTED


@pytest.mark.parametrize(
    ("operation", "end", "error", "exit_code"),
    [
        ("list_status", "/manifests", CommitAbortedError, 1),
        ("read", "-manifest.json", CommitAbortedError, 1),
        ("move_directory", "/frozen", CommitAbortedError, 1),
        ("advance", "declared", CommitAbortedError, 1),
        ("list_status", "p=1", CommitAbortedError, 1),
        ("advance", "recorded", CommitAbortedError, 1),
        ("mkdirs", "p=1", CommitStateUnknownError, 3),
        ("rename", "/a", CommitStateUnknownError, 3),
        ("advance", "committed", CommitStateUnknownError, 3),
        ("replace", "_SUCCESS", CommitStateUnknownError, 3),
    ],
)
def test_a_failed_request_is_harmless_before_the_record_and_stops_in_the_middle_after_it(
    operation: str, end: str, error: type[RayCommitterError], exit_code: int
):
    store, results = prepared(), list[CommitResult]()
    faulty = WrappedStore(store, before=at(operation, PermissionError(13, "denied", end), end))
    with pytest.raises(error, match="run the same command") as caught:
        commit(faulty, on_result=results.append)
    assert caught.value.exit_code == exit_code
    assert [result.outcome for result in results] == [Outcome.FAILED]
    assert results[0].error == str(caught.value)


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
            WrappedStore(store, after=at("advance", SimulatedCrash(), "committed")),
            CommitOptions(durable=True),
        )
    store.synced.clear()
    commit(store, CommitOptions(durable=False))
    content, name = store.synced[:2]
    assert (content.startswith(JOB.content("success-").removesuffix(".json")), name) == (True, "/table")


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_run_that_only_records_and_is_overtaken_says_what_has_become_of_the_job(
    is_recorded: bool, monkeypatch
):
    """Wherever it sleeps while another run commits the job whole."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)

    def begun() -> MemoryStore:
        store = prepared()
        if is_recorded:
            commit(store, record_only=True)
        return store

    calls = calls_of(begun(), lambda one: commit(one, record_only=True))
    for call in calls:
        store = begun()

        def overtake(now: StoreCall, call=call, store=store) -> None:
            if now.number == call.number:
                commit(store)

        report = commit(WrappedStore(store, before=overtake), record_only=True)
        assert report.outcome in (Outcome.RECORDED, Outcome.COMMITTED, Outcome.ALREADY_COMMITTED), call
        assert visible_files(store, "/table") == NEW


def test_a_job_that_is_committed_and_has_lost_its_record_says_that_there_is_no_marker():
    store = died(prepared(), commit, "advance", "committed", when="after")
    store.delete_file(JOB.content(state_of(store).record or ""))
    report = commit(store)
    assert report.outcome is Outcome.COMMITTED
    assert any(f"{JOB.success}: is not there" in notice for notice in report.notices)


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
    for phase in (Phase.ABORTED, Phase.UNDOING):
        store = prepared()
        bring_to(store, phase)
        is_visible = phase is Phase.UNDOING  # until its files have gone back, and then exit code 1 lies
        error = CommitRecordExistsError if is_visible else CommitAbortedError
        with pytest.raises(error, match="ray-committer abort"):
            commit(store)
        assert state_of(store).phase is phase
        assert visible_files(store, "/table") == {}


def test_a_job_whose_record_is_gone_stops_with_an_error_that_names_it():
    store = prepared()
    bring_to(store, Phase.RECORDED, record=record_of())
    record = JOB.content(record_of().nonce)
    store.delete_file(record)
    with pytest.raises(RecordGoneError, match=f"{record}: the commit record of job job_1 is gone"):
        commit(store)
    assert state_of(store).phase is Phase.RECORDED


def test_a_failure_after_which_nobody_can_look_does_not_say_that_nothing_was_changed():
    """Another process commits the job meanwhile, so its files are gone; then no state can be read."""
    store = prepared()
    failed: list[None] = []

    def overtaken(call: StoreCall) -> None:
        if call.operation == "list_status" and "/tasks" in call.paths[0] and not failed:
            failed.append(None)
            commit(store)
        if call.operation == "read_state" and failed:
            raise TimeoutError("simulated")

    with pytest.raises(CommitStateUnknownError, match="not known whether another process has continued"):
        commit(WrappedStore(store, before=overtaken))
    assert len(visible_files(store, "/table")) > 0


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (CommitOptions(), JobGoneError, "may have been committed before another job was, or deleted"),
        (CommitOptions(expected_tasks=3), JobGoneError, "3 tasks .* another job's clean-up may have"),
    ],
)
@pytest.mark.parametrize("leaves_tasks", [False, True])
def test_a_job_whose_manifests_are_gone_is_not_taken_for_a_committed_one(
    options: CommitOptions, error: type[RayCommitterError], text: str, leaves_tasks: bool
):
    store = prepared()
    for path in (JOB.manifests, JOB.state) if leaves_tasks else (JOB.temporary,):
        store.delete_directory(path)
    before = store.files()
    with pytest.raises(error, match=text):
        commit(store, options)
    assert store.files() == before


def of_another_run(content: dict[str, Any]) -> None:
    content["diagnostics"]["nonce"] = "other"


def of_another_job(content: dict[str, Any]) -> None:
    content["jobId"] = "job_2"


@pytest.mark.parametrize(
    ("change", "is_committed"),
    [(lambda _: None, True), (of_another_run, False), (of_another_job, False), (None, False)],
)
def test_a_job_that_another_process_has_ended_is_known_by_the_marker_of_its_record(
    change: Callable[[dict[str, Any]], None] | None, is_committed: bool
):
    store = prepared()

    def end() -> None:
        """Another process, which thinks this one dead, commits the whole job."""
        run_commit(store, JOB)
        if change is None:
            store.delete_file(JOB.success)
        else:
            content = json.loads(store.read(JOB.success))
            change(content)
            store.write(JOB.success, json.dumps(content).encode())

    faulty = WrappedStore(store, before=do_at("advance", end, "committed"))
    if is_committed:
        report = commit(faulty)
        assert report.outcome is Outcome.ALREADY_COMMITTED
        assert any("was committed by another process" in notice for notice in report.notices)
    else:
        with pytest.raises(CommitStateUnknownError, match="was ended by another process") as caught:
            commit(faulty)
        assert caught.value.exit_code == 3
    assert visible_files(store, "/table") == NEW


def test_a_declaration_that_another_committer_withdraws_is_no_end_of_the_job():
    store = prepared()
    declared = bring_to(store, Phase.DECLARED, record=record_of(owner=ALIVE))
    withdraw = do_at("read", lambda: advance(store, JOB, declared, Phase.OPEN))
    assert commit(WrappedStore(store, after=withdraw)).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == NEW


def test_a_late_request_that_cannot_be_tidied_up_does_not_hide_that_the_job_is_committed():
    """The driver would run the application again, and rows would be there twice."""
    store, ended = prepared(), list[None]()

    def act(call: StoreCall) -> None:
        if ended and call.operation == "remove_empty_directory":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), call.paths[0])
        if call.operation == "advance" and not ended:
            run_commit(store, JOB)
            ended.append(None)

    report = commit(WrappedStore(store, before=act))
    assert report.outcome is Outcome.ALREADY_COMMITTED
    assert any("what a late request made is left" in notice for notice in report.notices)
    assert visible_files(store, "/table") == NEW


@pytest.mark.parametrize("error", [PermissionError(errno.EPERM, os.strerror(errno.EPERM)), None])
def test_an_aborted_job_is_that_whatever_comes_after_its_state_was_seen(error: OSError | None):
    """Its directory is taken away by who aborts it, or the store shows nothing more."""
    for number in range(2, 8):
        store = prepared()
        advance(store, JOB, adopt_state(store, JOB), Phase.ABORTED)

        def act(call: StoreCall, number: int = number, store: MemoryStore = store) -> None:
            if call.number == number:
                if error is not None:
                    raise error
                run_abort(store, JOB)

        with pytest.raises(CommitAbortedError):
            commit(WrappedStore(store, before=act))
