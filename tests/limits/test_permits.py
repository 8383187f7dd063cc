"""A process's permits: never more than granted, and none once its lease is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_committer.errors import LeaseLostError
from ray_committer.limits.permits import RENEW_SECONDS, Permits
from ray_committer.limits.ratelimit import Grant, LimitStatistics, RateLimit
from tests.clock import Clock
from tests.threads import running_threads

LEASE = 10.0
PATIENCE = 10.0
UNLIMITED = Grant(None, 0.0, LEASE)


@dataclass
class Authority:
    """A `LimitAuthority` that gives `answer`, or runs and raises it, and notes what it was told."""

    answer: Grant | Callable[[], Grant]
    told: list[int] = field(default_factory=list)
    throttles: list[tuple[int, float | None]] = field(default_factory=list)
    throttles_all: bool = True

    def grant(self, holder: str, used: int) -> Grant:
        self.told.append(used)
        return self.answer if isinstance(self.answer, Grant) else self.answer()

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
        if not isinstance(self.answer, Grant):
            self.answer()
        self.throttles.append((used, retry_after_seconds))
        return self.throttles_all

    def statistics(self) -> LimitStatistics:
        return LimitStatistics()


def batch(requests: int, *, wait: float = 0.0) -> Grant:
    return Grant(requests, wait, wait + LEASE)


def unreachable() -> Grant:
    raise ConnectionError("simulated")


def here(authority: Authority, clock: Clock, *, patience_seconds: float = PATIENCE) -> Permits:
    return Permits(authority, "h", is_here=True, clock=clock, patience_seconds=patience_seconds)


def acquire(permits: Permits, times: int) -> None:
    for _ in range(times):
        permits.acquire()


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_without_a_limit_a_request_costs_no_call():
    clock, authority = Clock(), Authority(UNLIMITED)
    permits = here(authority, clock)
    acquire(permits, 1000)
    clock.now = RENEW_SECONDS - 0.01
    acquire(permits, 1000)
    assert authority.told == [0]
    clock.now = RENEW_SECONDS
    acquire(permits, 10)
    assert authority.told == [0, 2001]  # the lease was renewed with the first of these


@pytest.mark.parametrize("grant", [UNLIMITED, batch(10)], ids=["no limit", "limit"])
def test_requests_are_counted_whoever_has_been_told_of_them(grant: Grant):
    clock, authority = Clock(), Authority(grant)
    permits = here(authority, clock)
    acquire(permits, 7)
    assert permits.made == 7
    untold = 7 - sum(authority.told)
    authority.answer = unreachable
    permits.throttled(None)
    authority.answer = grant
    permits.throttled(None)
    acquire(permits, 5)
    assert permits.made == 12
    assert authority.throttles == [(untold, None)]


def test_counted_permits_are_asked_for_when_half_are_used():
    authority = Authority(batch(10))
    permits = here(authority, Clock())
    calls = []
    for _ in range(20):
        permits.acquire()
        calls.append(len(authority.told))
    assert calls == [1] * 4 + [2] * 10 + [3] * 6
    assert authority.told == [0, 5, 10]


def test_a_permit_begins_when_it_was_granted_for():
    clock, authority = Clock(), Authority(batch(10, wait=0.05))
    permits = here(authority, clock)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(permits.acquire)
        with pytest.raises(NotYetError):
            future.result(timeout=0.2)
        clock.now = 0.05
        future.result(timeout=10)


@pytest.mark.parametrize("grant", [UNLIMITED, batch(1000)], ids=["no limit", "limit"])
def test_permits_expire_with_their_lease(grant: Grant):
    clock, authority = Clock(), Authority(grant)
    permits = here(authority, clock, patience_seconds=-1.0)
    permits.acquire()
    authority.answer = unreachable
    clock.now = LEASE - 0.01
    acquire(permits, 3)
    clock.now = LEASE
    with pytest.raises(LeaseLostError, match=r"simulated.*run the same command"):
        permits.acquire()
    authority.answer = grant
    permits.acquire()  # who is reached again goes on


def test_a_lease_counts_from_when_it_was_asked_for():
    clock = Clock()

    def slow() -> Grant:
        clock.now += 4.0
        return batch(10)

    authority = Authority(slow)
    permits = here(authority, clock, patience_seconds=-1.0)
    permits.acquire()  # the answer comes at 4.0, for a lease that began at 0.0
    authority.answer = unreachable
    clock.now = LEASE - 0.01
    permits.acquire()
    clock.now = LEASE
    with pytest.raises(LeaseLostError):
        permits.acquire()


@pytest.mark.slow
@pytest.mark.parametrize("is_here", [True, False], ids=["here", "elsewhere"])
@pytest.mark.parametrize("grant", [UNLIMITED, batch(100)], ids=["no limit", "limit"])
def test_a_holder_that_gets_no_answer_waits_for_a_while_and_fails(grant: Grant, is_here: bool):
    clock, authority = Clock(), Authority(grant)
    permits = Permits(authority, "h", is_here=is_here, clock=clock, patience_seconds=PATIENCE)
    permits.acquire()
    authority.answer = unreachable
    clock.now = LEASE
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(permits.acquire)
        check_fails_only_after_patience(future, clock)
    permits.close()


@pytest.mark.slow
@pytest.mark.parametrize("grant", [UNLIMITED, batch(100)], ids=["no limit", "limit"])
def test_an_authority_that_never_answers_is_one_that_cannot_be_asked(grant: Grant):
    clock, authority, end = Clock(), Authority(grant), threading.Event()
    permits = Permits(authority, "h", clock=clock, patience_seconds=PATIENCE)
    permits.acquire()

    def never() -> Grant:
        end.wait()
        return unreachable()

    authority.answer = never
    clock.now = LEASE
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(permits.acquire)
        check_fails_only_after_patience(future, clock)
    end.set()
    permits.close()


def check_fails_only_after_patience(future: Future[None], clock: Clock) -> None:
    with pytest.raises(NotYetError):
        future.result(timeout=0.3)
    clock.now = LEASE + PATIENCE
    with pytest.raises(NotYetError):
        future.result(timeout=1.2)
    clock.now = LEASE + PATIENCE + 0.01
    with pytest.raises(LeaseLostError, match="for 10 s"):
        future.result(timeout=10)


@pytest.mark.slow
def test_patience_begins_anew_after_each_permit():
    clock, authority = Clock(), Authority(batch(2))
    permits = here(authority, clock, patience_seconds=PATIENCE)
    acquire(permits, 2)
    authority.answer = unreachable
    acquire(permits, 2)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(permits.acquire)
        with pytest.raises(NotYetError):
            future.result(timeout=0.1)
        authority.answer = batch(1)
        future.result(timeout=10)
        authority.answer = unreachable
        clock.now += PATIENCE + 1  # long after the first failure, at once after the last permit
        future = pool.submit(permits.acquire)
        with pytest.raises(NotYetError):
            future.result(timeout=0.1)
        clock.now += PATIENCE + 1
        with pytest.raises(LeaseLostError):
            future.result(timeout=10)


actions = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.5, 1.0, 4.0, 11.0]),
        st.sampled_from([None, 1, 2, 7, "unreachable", "throttled"]),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(actions)
def test_no_request_begins_without_a_permit_that_holds(steps: list[tuple[float, int | str | None]]):
    """Whatever the authority answers, each permit serves once and only during its lease."""
    clock = Clock()
    granted: list[list[float]] = []  # end and what is left of each grant

    def answer() -> Grant:
        if isinstance(kind, str):
            return unreachable()
        granted.append([clock.now + LEASE, float("inf") if kind is None else kind])
        return Grant(kind, 0.0, LEASE)

    permits = here(Authority(answer), clock, patience_seconds=-1.0)
    for seconds, kind in steps:
        clock.now += seconds
        if kind == "throttled":
            permits.throttled(None)
            granted.clear()
            continue
        try:
            permits.acquire()
        except LeaseLostError:
            assert kind == "unreachable"
            continue
        usable = [one for one in granted if clock.now < one[0] and one[1] > 0]
        assert usable
        usable[0][1] -= 1


@pytest.mark.parametrize("grant", [UNLIMITED, batch(100)], ids=["no limit", "limit"])
def test_a_throttled_process_gives_up_what_it_has_not_used(grant: Grant):
    authority = Authority(grant)
    permits = here(authority, Clock())
    acquire(permits, 3)
    permits.throttled(2.5)
    assert authority.throttles == [(3, 2.5)]
    assert authority.told == [0]
    permits.acquire()
    assert authority.told == [0, 0]


def test_a_process_whose_request_alone_is_refused_keeps_what_it_has():
    authority = Authority(batch(10), throttles_all=False)
    permits = here(authority, Clock())
    acquire(permits, 3)
    assert not permits.throttled(2.5)
    permits.acquire()
    assert (authority.told, authority.throttles) == ([0], [(3, 2.5)])


def test_counted_permits_take_the_place_of_a_lease_without_a_limit_and_back():
    clock, authority = Clock(), Authority(UNLIMITED)
    permits = here(authority, clock, patience_seconds=-1.0)
    permits.acquire()
    authority.answer = batch(2)
    clock.now = RENEW_SECONDS
    permits.acquire()  # the last by the old lease, which then ends
    authority.answer = unreachable
    acquire(permits, 2)
    with pytest.raises(LeaseLostError):
        permits.acquire()
    authority.answer = UNLIMITED
    acquire(permits, 100)


def test_a_failed_call_loses_no_count():
    clock, authority = Clock(), Authority(UNLIMITED)
    permits = here(authority, clock)
    acquire(permits, 7)
    authority.answer = unreachable
    clock.now = RENEW_SECONDS
    permits.acquire()
    authority.answer = UNLIMITED
    permits.acquire()
    assert authority.told == [0, 8, 9]


def test_many_threads_get_every_permit_that_was_granted_and_not_one_more():
    grants = iter([batch(size) for size in [1, 7, 30, 2, 500, 1, 64]])

    def answer() -> Grant:
        found = next(grants, None)
        return found if found is not None else unreachable()

    permits = Permits(Authority(answer), "h", patience_seconds=0.3)

    def work(_: int) -> int:
        made = 0
        while True:
            try:
                permits.acquire()
            except LeaseLostError:
                return made
            made += 1

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(work, range(16))) == 605
    permits.close()


def test_permits_are_asked_for_ahead_by_a_thread_of_its_own():
    threads: list[str] = []

    def answer() -> Grant:
        threads.append(threading.current_thread().name)
        return batch(10)

    permits = Permits(Authority(answer), "h", clock=Clock())
    acquire(permits, 5)
    wait_until(lambda: len(threads) == 2)  # asked for before it is needed
    assert set(threads) == {"permits"}
    permits.close()


def test_an_authority_that_is_here_needs_no_thread():
    before = running_threads()
    permits = Permits(RateLimit(1e6), "h", is_here=True)
    acquire(permits, 1000)
    assert running_threads() - before == set()
    permits.close()


def test_close_ends_the_thread_and_fails_who_waits():
    before = running_threads()
    permits = Permits(Authority(batch(10, wait=1000)), "h")
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(permits.acquire) for _ in range(3)]
        wait_until(lambda: len(permits._held.batches) > 0)
        permits.close()
        for future in waiting:
            with pytest.raises(LeaseLostError, match="returned its lease"):
                future.result(timeout=10)
    assert running_threads() - before == set()
    with pytest.raises(LeaseLostError):
        permits.acquire()
    assert running_threads() - before == set()
    permits.close()
