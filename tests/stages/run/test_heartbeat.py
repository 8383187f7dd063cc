"""A commit that takes long says that it is alive, and how far it is; one that ends says nothing more."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from ray_committer.errors import (
    CommitStateUnknownError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.owners import DEAD_SECONDS, at_work, is_nobody, owner_of
from ray_committer.job_files.read_job import read_job, read_other
from ray_committer.protocol.record import Heartbeat, decode_heartbeat, encode
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.run.heartbeat import heartbeat, signing_off
from ray_committer.stages.run.renamed import Renamed
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore
from tests.opening import moves_a_file
from tests.stages.support import JOB, KINDS, NOW, context, died, seen_in, state_of, with_job

OFTEN = 0.001


@pytest.fixture(params=["directories", "flat"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return with_job({0: {"a": b"x"}}, store=KINDS[request.param]())


class Beats:
    """A hook that lets a test wait for beats."""

    def __init__(self, error: Exception | None = None, operation: str = "replace") -> None:
        self.written = threading.Semaphore(0)
        self.error = error
        self.operation = operation

    def __call__(self, call: StoreCall) -> None:
        if call.operation == self.operation:
            self.written.release()
            if self.error is not None:
                raise self.error

    def wait(self, number: int = 1) -> None:
        for _ in range(number):
            assert self.written.acquire(timeout=20)


def is_beating() -> bool:
    return any(thread.name == "ray-committer-heartbeat" for thread in threading.enumerate())


def test_a_short_commit_gives_no_sign(store: MemoryStore):
    before = store.files()
    with heartbeat(context(store), "run", lambda: 0):
        assert is_beating()
    assert store.files() == before
    assert not is_beating()


def test_a_beat_says_who_is_alive_when_and_how_far(store: MemoryStore):
    beats, renamed = Beats(), Renamed(moved=3)
    with heartbeat(
        context(WrappedStore(store, after=beats)), "run", lambda: renamed.moved, every_seconds=OFTEN
    ):
        beats.wait()
        sign = decode_heartbeat(store.read(JOB.heartbeat), JOB.heartbeat)
        assert sign == Heartbeat(owner=owner_of("run"), at_milliseconds=NOW, files=3)
        renamed.moved = 7
        beats.wait(3)
        assert decode_heartbeat(store.read(JOB.heartbeat), JOB.heartbeat).files == 7


def test_a_beat_says_how_fast_files_were_moved_since_the_last_one(store: MemoryStore):
    beats, renamed = Beats(), Renamed(moved=3)
    seconds, seen = count(), list[float | None]()

    def move_five(call: StoreCall) -> None:
        if call.operation == "replace":
            seen.append(decode_heartbeat(store.read(JOB.heartbeat), JOB.heartbeat).per_second)
            renamed.moved += 5
        beats(call)

    clocked = replace(
        context(WrappedStore(store, after=move_five)),
        now_milliseconds=lambda: NOW + 2000 * next(seconds),
    )
    with heartbeat(clocked, "run", lambda: renamed.moved, every_seconds=OFTEN):
        beats.wait(3)
    assert seen[:3] == [0.0, 2.5, 2.5]


@pytest.mark.parametrize("error", [None, ValueError, SimulatedCrash])
def test_nothing_is_written_once_the_block_has_ended(
    store: MemoryStore, error: type[BaseException] | None
):
    beats = Beats()
    with (
        suppress(ValueError, SimulatedCrash),
        heartbeat(context(WrappedStore(store, after=beats)), "run", lambda: 0, every_seconds=OFTEN),
    ):
        beats.wait(2)
        if error is not None:
            raise error
    assert not is_beating()
    while beats.written.acquire(blocking=False):
        pass
    assert not beats.written.acquire(timeout=20 * OFTEN)


@pytest.mark.parametrize("error", [PermissionError(13, "no"), TimeoutError(), StoreRefusedError("no")])
def test_a_beat_that_fails_ends_neither_the_commit_nor_the_beats(store: MemoryStore, error: Exception):
    beats = Beats(error)
    with heartbeat(context(WrappedStore(store, before=beats)), "run", lambda: 0, every_seconds=OFTEN):
        beats.wait(3)
    assert store.get_status(JOB.heartbeat) is None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_beat_is_seen_whole_at_any_moment(store: MemoryStore, moment: str):
    """A file that is written anew is empty for a moment, on file systems and on HDFS."""
    renamed, seen = Renamed(), []

    def look(call: StoreCall) -> None:
        if store.get_status(JOB.heartbeat) is not None:
            seen.append(decode_heartbeat(store.read(JOB.heartbeat), JOB.heartbeat).files)
        if call.operation == "write":
            assert call.paths[0] != JOB.heartbeat
        renamed.moved += call.operation == "replace"
        beats(call)

    beats = Beats()
    watched = WrappedStore(store, **{moment: look})
    with heartbeat(context(watched), "run", lambda: renamed.moved, every_seconds=OFTEN):
        beats.wait(5)
    assert set(seen) >= {0, 1, 2, 3}


def test_a_beat_of_a_job_that_was_removed_brings_nothing_back():
    store = with_job({0: {"a": b"x"}})
    store.delete_directory(JOB.temporary)
    beats = Beats(operation="write")
    with heartbeat(context(WrappedStore(store, before=beats)), "run", lambda: 0, every_seconds=OFTEN):
        beats.wait(2)
    assert store.files() == {}


def test_a_beat_is_no_state_and_hinders_no_change_of_it(store: MemoryStore):
    beats = Beats()
    with heartbeat(context(WrappedStore(store, after=beats)), "run", lambda: 0, every_seconds=OFTEN):
        beats.wait()
        assert seen_in(store).phase is Phase.OPEN


# What a run that fails leaves


def renamed_then(store: MemoryStore, error: BaseException, **hooks: object) -> list[StoreCall]:
    """Commit until the first file is moved; the requests after that."""
    calls: list[StoreCall] = []

    def fail(call: StoreCall) -> None:
        calls.append(call)
        if moves_a_file(call):
            calls.clear()
            raise error

    watched = WrappedStore(store, before=fail, **hooks)
    with suppress(Exception, SimulatedCrash, KeyboardInterrupt, SystemExit):
        commit_job(context(watched), read_job(store, JOB))
    return calls


def last_beat(store: MemoryStore) -> Heartbeat | None:
    if store.get_status(JOB.heartbeat) is None:
        return None
    return decode_heartbeat(store.read(JOB.heartbeat), JOB.heartbeat)


@pytest.mark.parametrize("has_beaten", [False, True])
@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), ValueError("bug"), KeyboardInterrupt(), SystemExit(1)]
)
def test_a_run_that_fails_says_that_it_is_over(
    store: MemoryStore, error: BaseException, has_beaten: bool
):
    if has_beaten:  # this run goes on with the commit of another, and says so at once
        died(store, lambda one: commit_job(context(one), read_job(one, JOB)), "rename", "/a")
    renamed_then(store, error)
    beat = last_beat(store)
    assert beat is not None
    assert is_nobody(beat.owner)
    if not has_beaten:
        assert beat.owner.run == load_commit_record(store, JOB, state_of(store)).owner.run


def test_a_run_that_dies_says_nothing(store: MemoryStore):
    renamed_then(store, SimulatedCrash())
    assert last_beat(store) is None


@pytest.mark.parametrize("error", [StoreUnavailableError("/a", "no answer"), ThrottledError("/a")])
def test_a_store_that_is_down_is_not_asked_again_to_say_that_a_run_is_over(
    store: MemoryStore, error: OSError
):
    with suppress(OSError), signing_off(context(store), "run"):
        raise error
    with suppress(CommitStateUnknownError), signing_off(context(store), "run"):
        raise CommitStateUnknownError("stopped") from error
    assert last_beat(store) is None


def test_a_run_that_fails_before_its_record_leaves_no_sign(store: MemoryStore):
    before = store.files()
    with suppress(ValueError), signing_off(context(store), "run"):
        raise ValueError
    assert store.files() == before


def test_a_run_that_fails_does_not_speak_for_another(store: MemoryStore):
    recorded(store)
    other = Heartbeat(owner=owner_of("another"), at_milliseconds=NOW)
    store.write(JOB.heartbeat, encode(other))
    with suppress(ValueError), signing_off(context(store), "run"):
        raise ValueError
    assert last_beat(store) == other


def test_a_run_whose_job_is_gone_brings_nothing_back(store: MemoryStore):
    run = recorded(store)
    store.delete_directory(JOB.temporary)
    before = store.files()
    with suppress(ValueError), signing_off(context(store), run):
        raise ValueError
    assert store.files() == before


# What others see of it


def recorded(store: MemoryStore) -> str:
    """A commit that stopped after its record; the name of its run."""
    died(store, lambda one: commit_job(context(one), read_job(one, JOB)), "advance", "committed")
    return load_commit_record(store, JOB, state_of(store)).owner.run


LATER = NOW + round(DEAD_SECONDS * 1000) + 1


def is_alive(store: MemoryStore, now: int) -> bool:
    other = read_other(store, JOB, now)
    assert other is not None
    return other.is_alive


def test_a_run_that_goes_on_with_a_commit_beats_before_it_loads_again(store: MemoryStore):
    """Another job, which finds no sign of life, may give this one up."""
    recorded(store)
    calls: list[StoreCall] = []
    watched = WrappedStore(store, before=calls.append)
    commit_job(context(watched), read_job(store, JOB))
    beaten = next(one.number for one in calls if one.paths[-1] == JOB.heartbeat)
    loads = [one.number for one in calls if one.operation == "read" and JOB.packs in one.paths[0]]
    assert beaten < min(loads)


def test_a_beat_of_an_earlier_run_keeps_no_other_alive(store: MemoryStore):
    run = recorded(store)
    store.write(JOB.heartbeat, encode(Heartbeat(owner=owner_of("earlier"), at_milliseconds=LATER)))
    with at_work(run):
        assert not is_alive(store, LATER)
