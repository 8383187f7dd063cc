"""How a job that died in the middle is ended before another: who is watched, and what may fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ray_committer.errors import (
    CommitAbortedError,
    CommitCancelledError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    CommitterBusyError,
    JobGoneError,
    ManifestError,
    RayCommitterError,
    mark,
    shown,
    why,
)
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import StateChangedError, advance
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.others import other_jobs
from ray_committer.job_files.owners import owner_of
from ray_committer.options import Unfinished
from ray_committer.protocol.record import Claim, Heartbeat, Owner, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages.other_jobs.end_others import End, end_jobs, end_of
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore
from tests.stages.support import ALIVE, DEAD, JOB, NOW, OTHER_JOB, with_job

LATER = msgspec.structs.replace(owner_of("run"), started=-1)
LONG_AFTER = NOW + 3_600_000


def stopped(
    owner: Owner = DEAD, phase: Phase = Phase.RECORDED, writes: tuple[str, ...] = ("/table/p=1",)
) -> tuple[MemoryStore, JobStatus]:
    """A job that has stopped, and how it looks long after that."""
    store = with_job(job=OTHER_JOB, phase=phase, owner=owner, claim=Claim([*writes]))
    (other,) = other_jobs(store, "/table", LONG_AFTER, asking=JOB)
    return store, other


@pytest.mark.parametrize(
    ("roots", "is_superseded"),
    [
        (("/table",), True),
        (("/table/p=1",), True),
        (("/other", "/table/p=1"), True),
        (("/table/p=1/q=1",), False),
        (("/table/p=10",), False),
        ((), False),
    ],
)
def test_only_a_job_that_replaces_all_that_another_writes_supersedes_it_unasked(
    roots: tuple[str, ...], is_superseded: bool
):
    _, other = stopped()
    assert end_of(other, None, roots) is (End.UNDO if is_superseded else None)
    _, elsewhere = stopped(writes=("/table/p=1", "/elsewhere"))
    assert end_of(elsewhere, None, roots) is None


@pytest.mark.parametrize("unfinished", ["finish", "supersede", None])
@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.COMMITTED])
def test_what_is_not_in_the_middle_is_not_ended(phase: Phase, unfinished: Unfinished | None):
    _, other = stopped(phase=phase)
    assert end_of(other, unfinished, ("/table",)) is None


@pytest.mark.parametrize("unfinished", ["finish", "supersede", None])
def test_a_job_that_is_at_work_is_not_ended(unfinished: Unfinished | None):
    store, _ = stopped(ALIVE)
    (alive,) = other_jobs(store, "/table", NOW, asking=JOB)
    assert end_of(alive, unfinished, ("/table",)) is None


def test_a_job_that_was_moved_away_by_mistake_is_not_ended():
    store, _ = stopped()
    store.move_directory(OTHER_JOB.directory, OTHER_JOB.gone("nonce").directory)
    (gone,) = other_jobs(store, "/table", LONG_AFTER, asking=JOB)
    assert end_of(gone, "finish", ("/table",)) is None


class Slept(list[float]):
    """The pauses of a watch, with what happens in the first."""

    def __init__(self, happens: object = None) -> None:
        super().__init__()
        self.happens = happens

    def __call__(self, seconds: float) -> None:
        if not self and callable(self.happens):
            self.happens()
        self.append(seconds)


def end_all(store: MemoryStore, chosen: list[tuple[JobStatus, End]], *how: Any) -> list[str]:
    return list(end_jobs(store, chosen, *how))


def failing(error: Exception) -> Any:
    """What ends another job and fails."""

    def end(other: JobStatus, how: End) -> list[str]:
        raise error

    return end


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch for an instant."""
    monkeypatch.setattr(owners, "DEAD_SECONDS", 0.02)


def beat(store: MemoryStore, owner: Owner, at: int = NOW) -> None:
    store.write(OTHER_JOB.heartbeat, encode(Heartbeat(owner=owner, at_milliseconds=at)))


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    ("owner", "beats", "phase", "is_watched"),
    [
        (DEAD, None, Phase.RECORDED, False),
        (LATER, None, Phase.RECORDED, False),
        (ALIVE, None, Phase.RECORDED, True),
        (ALIVE, None, Phase.SEALED, True),
        (ALIVE, None, Phase.UNDOING, False),
        (DEAD, ALIVE, Phase.RECORDED, True),
        (LATER, ALIVE, Phase.RECORDED, True),
        (LATER, DEAD, Phase.RECORDED, False),
    ],
)
def test_a_job_is_watched_unless_it_is_certain_that_its_process_has_ended(
    owner: Owner, beats: Owner | None, phase: Phase, is_watched: bool
):
    store, other = stopped(owner, phase)
    if beats is not None:
        beat(store, beats)
        (other,) = other_jobs(store, "/table", LONG_AFTER, asking=JOB)
    slept = Slept()
    texts = end_all(store, [(other, End.UNDO)], lambda *_: [], slept)
    assert len(texts) == 1
    assert bool(slept) is is_watched


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("sign", ["heartbeat", "state", "end"])
def test_a_job_that_gives_a_sign_of_life_while_it_is_watched_is_left_alone(sign: str):
    """Its clock is behind, or its process was paused."""
    store, other = stopped(ALIVE)

    def happens() -> None:
        if sign == "heartbeat":
            beat(store, ALIVE)
        elif sign == "state":
            advance(store, OTHER_JOB, other.seen, Phase.SEALED)
        else:
            store.delete_directory(OTHER_JOB.directory)

    assert end_all(store, [(other, End.UNDO)], failing(AssertionError()), Slept(happens)) == []


@pytest.mark.usefixtures("_short")
def test_one_watch_is_for_all_jobs():
    slept = Slept()
    store, other = stopped(ALIVE)
    assert len(end_all(store, [(other, End.UNDO), (other, End.UNDO)], lambda *_: [], slept)) == 2
    assert slept == sorted(slept, reverse=True)


@pytest.mark.usefixtures("_short")
def test_a_watch_can_be_cancelled():
    store, other = stopped(ALIVE)

    def cancel() -> None:
        raise CommitCancelledError("cancelled")

    with pytest.raises(CommitCancelledError):
        end_all(store, [(other, End.UNDO)], lambda *_: [], Slept(cancel))


@pytest.mark.parametrize("how", list(End))
def test_what_was_done_is_said_with_what_the_end_had_to_say(how: End):
    store, other = stopped()
    done, *notices = end_all(store, [(other, how)], lambda *_: ["one", "two"])
    assert notices == ["one", "two"]
    assert shown(done).startswith(f"{OTHER_JOB.directory}: job job_2 was ")
    assert ("given up" in done) is (how is End.UNDO)


def test_what_was_ended_is_told_even_if_the_next_one_cannot_be():
    store, other = stopped()

    def end(_: JobStatus, how: End) -> list[str]:
        if how is End.FINISH:
            raise PermissionError(13, "denied")
        return []

    texts = end_jobs(store, [(other, End.UNDO), (other, End.FINISH)], end)
    assert "job job_2 was given up before this job" in next(texts)
    with pytest.raises(CommitStateUnknownError):
        next(texts)


@pytest.mark.parametrize(
    "error",
    [
        StateChangedError(None),
        CommitterBusyError("at work"),
        CommitRecordExistsError("sealed meanwhile"),
        CommitAbortedError("aborted meanwhile"),
        JobGoneError("gone"),
    ],
)
def test_a_job_that_another_process_ends_or_continues_is_no_error(error: Exception):
    store, other = stopped()
    assert end_all(store, [(other, End.UNDO)], failing(error)) == []


@pytest.mark.parametrize("is_set_up_again", [False, True])
def test_an_error_about_a_job_that_is_not_there_any_more_is_none(is_set_up_again: bool):
    store, other = stopped()

    def end(other: JobStatus, how: End) -> list[str]:
        store.delete_directory(OTHER_JOB.directory)
        if is_set_up_again:
            setup_job(store, OTHER_JOB)
        raise CommitStateUnknownError("was ended by another process")

    assert end_all(store, [(other, End.UNDO)], end) == []


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            CommitConflictError(f"{mark('/table/p=1/a')}: is there already", "move it away"),
            "move it away; ",
        ),
        (ManifestError(f"{mark('/table/m')}: is torn"), "fix or remove the file"),
        (PermissionError(13, "denied", "/table/p=1"), "this job has changed nothing"),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_job_that_cannot_be_ended_is_an_error_that_names_it_and_its_next_command(
    error: Exception, advice: str, begun: bool
):
    store, other = stopped()

    def end(other: JobStatus, how: End) -> list[str]:
        if begun:
            advance(store, other.job, other.seen, Phase.UNDOING)
        raise error

    with pytest.raises(CommitStateUnknownError) as caught:
        end_all(store, [(other, End.UNDO)], end)
    said = caught.value
    assert said.what.startswith(f"{OTHER_JOB.directory}: job job_2 was to be given up before this job")
    assert shown(error.parts[0] if isinstance(error, RayCommitterError) else why(error)) in said.what
    assert said.advice.startswith(advice)
    commands = ("abort memory://test/table --job-id job_2 --undo",) if begun else ("commit", "abort")
    assert all(f"ray-committer {command}" in said.advice for command in commands)
    assert ("ray-committer commit" in said.advice) is not begun
    assert said.__cause__ is error


def test_a_job_whose_directory_stays_after_its_undo_is_named_with_its_abort():
    store, other = stopped()

    def end(other: JobStatus, how: End) -> list[str]:
        advance(store, other.job, advance(store, other.job, other.seen, Phase.UNDOING), Phase.ABORTED)
        raise PermissionError(1, "not permitted", other.job.directory)

    with pytest.raises(CommitStateUnknownError) as caught:
        end_all(store, [(other, End.UNDO)], end)
    assert caught.value.advice.endswith("with: ray-committer abort memory://test/table --job-id job_2")


def test_a_cancelled_end_cancels_the_job():
    store, other = stopped()
    with pytest.raises(CommitCancelledError):
        end_all(store, [(other, End.FINISH)], failing(CommitCancelledError("cancelled")))
