"""Committers are watched by this process's own clock: no other clock makes one look alive for long."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.others import Watch, until_certain
from ray_committer.job_files.owners import DEAD_SECONDS, nobody, owner_of
from ray_committer.job_files.read_job import read_other
from ray_committer.limits.waiting import LOOK_SECONDS
from ray_committer.protocol.record import Heartbeat, Owner, encode
from ray_committer.protocol.state import Phase
from ray_committer.testing import MemoryStore
from tests.clock import Clock
from tests.stages.support import ALIVE, DEAD, JOB, NOW, OTHER_JOB, bring_to, record_of, with_job

AHEAD = NOW + 36_000_000


def seen(beat: Heartbeat | None = None, *, owner: Owner = ALIVE, at: int = NOW) -> JobStatus:
    """A recorded job as one look sees it, with its last sign of life."""
    store = with_job(store=MemoryStore())
    bring_to(store, Phase.RECORDED, record=record_of(owner=owner, created_milliseconds=at))
    if beat is not None:
        store.write(JOB.heartbeat, encode(beat))
    found = read_other(store, JOB, NOW, wants_beat=True)
    assert found is not None
    return found


def same_state(one: JobStatus, beat: Heartbeat) -> JobStatus:
    """The job with a later heartbeat."""
    return replace(seen(beat, at=one.declaration.created_milliseconds), seen=one.seen)


def beat_of(at: int, owner: Owner = ALIVE) -> Heartbeat:
    return Heartbeat(owner=owner, at_milliseconds=at)


@pytest.mark.parametrize("at", [NOW, AHEAD])
def test_who_gives_no_other_sign_while_it_is_watched_is_dead_whatever_its_clock_says(at: int):
    clock = Clock()
    watch, other = Watch(clock), seen(at=at)
    first = watch.judge(other)
    assert (first.is_alive, first.is_doubtful) == (True, at == AHEAD)
    clock.now += DEAD_SECONDS - 0.1
    assert watch.judge(other).is_doubtful is (at == AHEAD)
    clock.now += 0.1
    last = watch.judge(other)
    assert (last.is_alive, last.is_doubtful) == (False, False)


@pytest.mark.parametrize("shift", [36_000_000, 0, -36_000_000])
def test_who_gives_another_sign_while_it_is_watched_is_alive_whatever_its_clock_says(shift: int):
    clock = Clock()
    watch, other = Watch(clock), seen(beat_of(NOW + shift), at=NOW + shift)
    watch.judge(other)
    for seconds in (10, 20, 30):
        clock.now += 10
        last = watch.judge(same_state(other, beat_of(NOW + shift + 1000 * seconds)))
        assert (last.is_alive, last.is_doubtful) == (True, False)
    clock.now += DEAD_SECONDS
    assert not watch.judge(same_state(other, beat_of(NOW + shift + 30_000))).is_alive


def test_of_each_job_its_own_sign_is_watched():
    clock = Clock()
    watch, other = Watch(clock), seen(at=AHEAD)
    watch.judge(other)
    clock.now += DEAD_SECONDS
    assert watch.judge(replace(other, job=OTHER_JOB)).is_doubtful
    assert not watch.judge(other).is_alive


def test_what_is_certain_is_looked_at_once():
    looks: list[JobStatus] = []

    def look() -> list[JobStatus]:
        looks.append(seen())
        return looks[-1:]

    def pause(_: float) -> None:
        raise AssertionError("nothing is doubtful")

    assert [one.is_alive for one in until_certain(look, pause=pause)] == [True]
    assert len(looks) == 1


def test_what_is_doubtful_is_looked_at_until_it_is_certain_and_no_longer():
    clock, other = Clock(), seen(at=AHEAD)

    def pause(seconds: float) -> None:
        clock.now += seconds

    (last,) = until_certain(lambda: [other], pause=pause, clock=clock)
    assert (last.is_alive, clock.now) == (False, DEAD_SECONDS)
    clock.now, changed = 0.0, same_state(other, beat_of(AHEAD + 1))
    (last,) = until_certain(lambda: [changed if clock.now else other], pause=pause, clock=clock)
    assert (last.is_alive, clock.now) == (True, LOOK_SECONDS)


# The last word of a run that has failed


def test_a_run_that_has_signed_off_is_dead_although_it_has_just_begun_and_its_process_lives():
    over = msgspec.structs.replace(ALIVE, started=nobody(ALIVE.run).started)
    assert seen().is_alive
    other = seen(beat_of(NOW, over))
    assert (other.is_alive, other.is_doubtful, other.has_ended) == (False, False, True)


def test_a_run_that_has_signed_off_says_nothing_of_another_that_began_the_commit():
    other = seen(beat_of(NOW, nobody("another run")))
    assert other.is_alive
    assert not other.has_ended


def test_a_run_that_goes_on_after_another_has_signed_off_is_alive():
    other = seen(beat_of(NOW), owner=DEAD)
    assert (other.is_alive, other.owner) == (True, ALIVE)
    assert owner_of("run") != ALIVE
