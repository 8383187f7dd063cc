"""Who has died or failed keeps nobody waiting, whatever clocks say; who is at work is waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

import ray_committer
from ray_committer.cli.status_lines import status_lines
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, CommitterBusyError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import read_state
from ray_committer.jobs.destination_status import destination_status
from ray_committer.limits import waiting
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Claim, Heartbeat, decode_record, encode
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import StoreCall
from tests.opening import moves_a_file, opening
from tests.stages.support import ALIVE, bring_to, record_of

AT_ONCE = ray_committer.CommitOptions(conflict_wait_seconds=0.0, assume_complete=True)
HOURS = 10 * 3_600_000


def ahead() -> int:
    return time.time_ns() // 1_000_000 + HOURS


@pytest.fixture(autouse=True)
def looks_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.01)


@pytest.fixture
def silence_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives no sign for this long is dead: who dies, and never who lives, is tried with it."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", 0.05)


def begun(store: StoreOperations, job: JobAttempt, phase: Phase, **fields: object) -> JobAttempt:
    """A committer on another machine, whose clock is ahead, has begun the commit."""
    record = record_of(
        job_id=job.job_id,
        owner=ALIVE,
        created_milliseconds=ahead(),
        claim=Claim([job.destination]),
        **fields,
    )
    bring_to(store, phase, job=job, record=record)
    return job


def recorded(store: StoreOperations, job: JobAttempt, dest: Path) -> JobAttempt:
    """A real record, whose time and owner are then those of the other machine."""
    ray_committer.record_job(str(dest), job.job_id, options=AT_ONCE)
    seen = read_state(store, job)
    assert seen is not None
    path = Path(job.content(seen.state.record or ""))
    record = decode_record(path.read_bytes(), str(path))
    path.write_bytes(encode(structs.replace(record, owner=ALIVE, created_milliseconds=ahead())))
    return job


def beating(job: JobAttempt) -> Callable[[StoreCall], None]:
    """A hook: the committer gives another sign of life after each look at the last one."""
    at = ahead()

    def beat(call: StoreCall) -> None:
        nonlocal at
        if call.operation == "read" and call.paths[0] == job.heartbeat:
            at += 10_000
            Path(job.heartbeat).write_bytes(encode(Heartbeat(owner=ALIVE, at_milliseconds=at)))

    return beat


@pytest.mark.usefixtures("silence_is_short")
def test_the_commit_of_one_that_has_died_is_finished(store, write_job, dest: Path, tree):
    recorded(store, write_job({0: {"a": "x"}}), dest)
    report = ray_committer.commit_job(str(dest), options=AT_ONCE)
    assert (report.outcome, report.resumed) == (Outcome.COMMITTED, True)
    assert tree()["a"] == "x"


@pytest.mark.usefixtures("silence_is_short")
def test_the_declaration_of_one_that_has_died_is_withdrawn(store, write_job, dest: Path):
    begun(store, write_job({0: {"a": "x"}}), Phase.DECLARED)
    assert ray_committer.commit_job(str(dest), options=AT_ONCE).outcome is Outcome.COMMITTED


@pytest.mark.usefixtures("silence_is_short")
def test_the_commit_of_one_that_has_died_is_undone(store, write_job, dest: Path):
    recorded(store, write_job({0: {"a": "x"}}), dest)
    assert ray_committer.abort_job(str(dest), undo=True)


@pytest.mark.usefixtures("silence_is_short")
@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.RECORDED])
def test_one_that_has_died_is_in_no_other_jobs_way_for_longer(
    store, write_job, dest: Path, phase: Phase
):
    first = write_job({0: {"a": "x"}})
    second = write_job({0: {"b": "y"}}, job_id="job_2")
    if phase is Phase.RECORDED:
        recorded(store, first, dest)
    else:
        begun(store, first, phase)
    overwrite = AT_ONCE.changed(mode=ray_committer.ConflictMode.OVERWRITE)
    report = ray_committer.commit_job(str(dest), second.job_id, options=overwrite)
    assert report.outcome is Outcome.COMMITTED


@pytest.mark.usefixtures("silence_is_short")
def test_a_set_up_is_refused_beside_a_commit_of_one_that_has_died(store, write_job, dest: Path):
    recorded(store, write_job({0: {"a": "x"}}), dest)
    with pytest.raises(CommitConflictError, match="has begun but not ended"):
        ray_committer.setup_job(
            str(dest), options=AT_ONCE.changed(mode=ray_committer.ConflictMode.ERROR)
        )


@pytest.mark.usefixtures("silence_is_short")
def test_vacuum_removes_what_one_that_has_died_has_declared(store, write_job, dest: Path):
    job = begun(store, write_job({0: {"a": "x"}}), Phase.DECLARED)
    for path in (dest / "_temporary").rglob("*"):
        os.utime(path, (1, 1))
    (found,) = ray_committer.vacuum_jobs(str(dest))
    assert (found.removed, Path(job.directory).exists()) == (True, False)


@pytest.mark.usefixtures("silence_is_short")
def test_status_does_not_say_that_one_that_has_died_is_at_work(store, write_job, dest: Path):
    recorded(store, write_job({0: {"a": "x"}}), dest)
    found = destination_status(str(dest))
    (job,) = found.jobs
    assert (job.state, job.is_alive) == ("recorded", False)
    assert job.undo_command is not None
    shown = "\n".join(map(str, status_lines(str(dest), found)))
    assert "is at work" not in shown
    assert "has begun but not ended" in shown


def test_one_that_is_at_work_is_left_alone(store, write_job, dest: Path):
    job = recorded(store, write_job({0: {"a": "x"}}), dest)
    begin = beating(job)
    begin(StoreCall("read", (job.heartbeat,)))
    with opening(after=begin):
        with pytest.raises(CommitterBusyError, match="process 1 on elsewhere"):
            ray_committer.commit_job(str(dest), options=AT_ONCE)
        with pytest.raises(CommitterBusyError, match="process 1 on elsewhere"):
            ray_committer.abort_job(str(dest), undo=True)
        (found,) = destination_status(str(dest)).jobs
        assert (found.is_alive, found.undo_command) == (True, None)


def test_another_job_is_refused_while_one_is_at_work(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    write_job({0: {"b": "y"}}, job_id="job_2")
    recorded(store, job, dest)
    begin = beating(job)
    begin(StoreCall("read", (job.heartbeat,)))
    overwrite = AT_ONCE.changed(mode=ray_committer.ConflictMode.OVERWRITE)
    with opening(after=begin), pytest.raises(CommitConflictError, match="at the same time"):
        ray_committer.commit_job(str(dest), "job_2", options=overwrite)
    assert read_state(store, job).phase is Phase.RECORDED


def test_status_shows_a_job_that_ends_while_it_is_watched_as_it_is_then(store, write_job, dest: Path):
    job = recorded(store, write_job({0: {"a": "x"}}), dest)
    looks: list[StoreCall] = []

    def end(call: StoreCall) -> None:
        if call.operation == "read" and call.paths[0] == job.heartbeat:
            looks.append(call)
            if len(looks) == 2:
                shutil.rmtree(dest / "_temporary")
                (dest / "_SUCCESS").write_text("{}")

    with opening(before=end):
        found = destination_status(str(dest))
    assert len(looks) == 2
    assert (found.jobs, found.last_commit is not None) == ((), True)


# A commit that has failed in a process that lives on


@pytest.mark.parametrize("error", [OSError(5, "simulated"), KeyboardInterrupt(), SystemExit(1)])
def test_a_commit_that_has_failed_in_a_process_that_lives_on_keeps_no_other_waiting(
    write_job, dest: Path, error: BaseException
):
    def fail(call: StoreCall) -> None:
        if moves_a_file(call):
            raise error

    write_job({0: {"a": "x"}})
    ended = (CommitStateUnknownError, KeyboardInterrupt, SystemExit)
    with opening(before=fail), pytest.raises(ended):
        ray_committer.commit_job(str(dest), executor="inline", options=AT_ONCE)
    command = [sys.executable, "-m", "ray_committer.cli"]
    shown = subprocess.run([*command, "status", str(dest)], capture_output=True, text=True, check=True)
    assert "which has stopped" in shown.stdout
    again = [*command, "commit", str(dest), "--conflict-wait-seconds", "0"]
    assert subprocess.run(again, capture_output=True, check=False).returncode == 0
    assert (dest / "a").read_text() == "x"
