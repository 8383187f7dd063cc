"""A guarded store: a permit for each request, throttled ones made again, all of them timed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ray_committer.errors import LeaseLostError, StoreUnavailableError, ThrottledError
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import Grant, LimitStatistics, RateLimit
from ray_committer.protocol.iostatistics import IOStatistics, Mean, aggregate
from ray_committer.stores.base import StoredState, StoreOperations
from ray_committer.stores.guarded import STATE_SECONDS, GuardedStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, throttle

REQUESTS = [
    ("get_status", ("/d/f",), "op_get_file_status"),
    ("list_status", ("/d",), "op_list_status"),
    ("list_files", ("/d",), "op_list_files"),
    ("read", ("/d/f",), "op_open"),
    ("write", ("/d/new", b"data"), "op_create"),
    ("mkdirs", ("/e",), "op_mkdirs"),
    ("rename", ("/d/f", "/d/g"), "op_rename"),
    ("replace", ("/d/f", "/d/other"), "op_rename"),
    ("read_state", ("/state",), "op_open"),
    ("advance", ("/state", StoredState("first.state"), "second.state"), "op_rename"),
    ("delete_file", ("/d/f",), "op_delete"),
    ("delete_directory", ("/d",), "op_delete_dir"),
    ("remove_empty_directory", ("/empty",), "op_delete"),
]
requests = pytest.mark.parametrize(("method", "arguments", "statistic"), REQUESTS)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class CountedPermits(Permits):
    """Permits without a limit, and how many were taken and what was told of throttling."""

    def __init__(self, *, throttles_all: bool = True) -> None:
        super().__init__(RateLimit(), "h", is_here=True)
        self.throttles_all = throttles_all
        self.taken = 0
        self.told: list[float | None] = []

    def acquire(self) -> None:
        self.taken += 1

    def throttled(self, retry_after_seconds: float | None) -> bool:
        self.told.append(retry_after_seconds)
        return self.throttles_all


@pytest.fixture
def memory() -> MemoryStore:
    store = MemoryStore()
    for directory in ("/d", "/empty", "/state"):
        store.mkdirs(directory)
    store.write("/state/first.state", b"")
    store.write("/d/f", b"content")
    store.write("/d/other", b"other")
    return store


def state(store: MemoryStore) -> tuple[Any, ...]:
    return store.files(), sorted(store._directories)


def test_the_table_names_every_request_that_each_store_takes():
    required = StoreOperations.__abstractmethods__
    assert {method for method, _, _ in REQUESTS} == {*required, "rename", "replace"}


@requests
def test_every_request_takes_one_permit_and_does_what_the_store_does(
    memory: MemoryStore, method: str, arguments: tuple[Any, ...], statistic: str
):
    permits, plain = CountedPermits(), memory.copy()
    guarded = GuardedStore(memory, permits)
    assert getattr(guarded, method)(*arguments) == getattr(plain, method)(*arguments)
    assert state(memory) == state(plain)
    assert (permits.taken, permits.told) == (1, [])
    assert guarded.take_statistics().counters == {statistic: 1}


def test_it_tells_what_store_it_is(memory: MemoryStore):
    guarded = GuardedStore(memory, CountedPermits())
    assert (guarded.spec, guarded.capabilities) == (memory.spec, memory.capabilities)


@requests
@pytest.mark.parametrize("retry_after", [None, 0.25])
def test_a_throttled_request_is_told_of_and_made_again(
    memory: MemoryStore,
    method: str,
    arguments: tuple[Any, ...],
    statistic: str,
    retry_after: float | None,
):
    permits, plain = CountedPermits(), memory.copy()
    refuse = throttle(1, 3, retry_after_seconds=retry_after)
    slept: list[float] = []
    guarded = GuardedStore(WrappedStore(memory, before=refuse), permits, sleep=slept.append)
    assert getattr(guarded, method)(*arguments) == getattr(plain, method)(*arguments)
    assert state(memory) == state(plain)
    is_alone = method == "advance"  # one name is throttled, and nobody else is to wait for it
    assert (permits.taken, permits.told) == (4, [] if is_alone else [retry_after] * 3)
    first, others = slept[:1], slept[1:]
    assert [0.05 <= seconds <= 0.1 for seconds in first] == ([True] if is_alone else [])
    assert others == ([retry_after or STATE_SECONDS] * 2 if is_alone else [])
    assert guarded.take_statistics().counters == {
        statistic: 4,
        f"{statistic}.failures": 3,
        "store_io_throttled": 3,
    }


@pytest.mark.parametrize("retry_after", [None, 3.0])
def test_a_request_that_is_refused_among_few_waits_alone_first_for_a_moment(
    memory: MemoryStore, retry_after: float | None
):
    """Not as long as the store asks, which few others are; but so long if it is refused again."""
    slept: list[float] = []
    refuse = throttle(1, 3, retry_after_seconds=retry_after)
    permits = CountedPermits(throttles_all=False)
    guarded = GuardedStore(WrappedStore(memory, before=refuse), permits, sleep=slept.append)
    assert guarded.read("/d/f") == b"content"
    first, *others = slept
    assert 0.05 <= first <= 0.1
    assert [seconds >= (retry_after or 0.1) for seconds in others] == [True, True]


@pytest.mark.parametrize(("seconds_each", "tries"), [(1.0, 11), (4.9, 3), (100.0, 2)])
def test_a_request_that_is_throttled_for_too_long_fails(
    memory: MemoryStore, seconds_each: float, tries: int
):
    clock, permits = Clock(), CountedPermits()

    def refuse(call: StoreCall) -> None:
        if call.number > 1:  # however long the first took, the deadline is that of what comes after
            clock.now += seconds_each
        raise ThrottledError(call.paths[0], 0.5)

    store = WrappedStore(memory, before=refuse)
    guarded = GuardedStore(store, permits, retry_seconds=9.5, clock=clock)
    with pytest.raises(ThrottledError) as caught:
        guarded.read("/d/f")
    assert caught.value.filename == "/d/f"
    assert permits.taken == len(permits.told) == tries
    assert guarded.take_statistics().counters == {
        "op_open": tries,
        "op_open.failures": tries,
        "store_io_throttled": tries,
    }


def test_each_request_has_a_deadline_of_its_own(memory: MemoryStore):
    clock, permits = Clock(), CountedPermits()

    def refuse(call: StoreCall) -> None:
        clock.now += 6.0
        if call.number % 2:
            raise ThrottledError(call.paths[0])

    store = WrappedStore(memory, before=refuse)
    guarded = GuardedStore(store, permits, retry_seconds=10.0, clock=clock)
    for _ in range(5):
        assert guarded.read("/d/f") == b"content"


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileNotFoundError, OSError])
def test_any_other_error_passes_at_once(memory: MemoryStore, error: type[OSError]):
    permits, raised = CountedPermits(), error(5, "simulated", "/d/f")

    def fail(_: StoreCall) -> None:
        raise raised

    guarded = GuardedStore(WrappedStore(memory, before=fail), permits)
    with pytest.raises(error) as caught:
        guarded.rename("/d/f", "/d/g")
    assert caught.value is raised
    assert (permits.taken, permits.told) == (1, [])
    assert guarded.take_statistics().counters == {"op_rename": 1, "op_rename.failures": 1}


def unanswered(calls: int) -> Callable[[StoreCall], None]:
    def hook(call: StoreCall) -> None:
        if call.number <= calls:
            raise StoreUnavailableError(call.paths[0], "lost")

    return hook


@requests
def test_a_request_without_an_answer_is_made_again_if_that_is_harmless(
    memory: MemoryStore, method: str, arguments: tuple[Any, ...], statistic: str
):
    permits, plain, pauses = CountedPermits(), memory.copy(), list[float]()
    guarded = GuardedStore(WrappedStore(memory, before=unanswered(3)), permits, sleep=pauses.append)
    if method in ("rename", "replace", "advance"):
        with pytest.raises(StoreUnavailableError):
            getattr(guarded, method)(*arguments)
        assert (permits.taken, pauses) == (1, [])
        return
    assert getattr(guarded, method)(*arguments) == getattr(plain, method)(*arguments)
    assert state(memory) == state(plain)
    assert permits.taken == 4
    assert permits.told == []  # it was not throttled
    assert guarded.take_statistics().counters == {
        statistic: 4,
        f"{statistic}.failures": 3,
        "store_io_retry": 3,
    }
    assert pauses == sorted(pauses)
    assert 0.1 <= pauses[0] <= 0.2


def test_a_store_that_stays_silent_is_given_up(memory: MemoryStore):
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    guarded = GuardedStore(
        WrappedStore(memory, before=unanswered(1000)),
        CountedPermits(),
        retry_seconds=60.0,
        clock=clock,
        sleep=sleep,
    )
    with pytest.raises(StoreUnavailableError, match="lost") as caught:
        guarded.read("/d/f")
    assert caught.value.filename == "/d/f"
    assert 49 < clock.now <= 60


def test_without_a_permit_nothing_is_requested(memory: MemoryStore):
    class Lost:
        def grant(self, holder: str, used: int) -> Grant:
            raise ConnectionError

        def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
            return True

        def statistics(self) -> LimitStatistics:
            return LimitStatistics()

    calls: list[StoreCall] = []
    permits = Permits(Lost(), "h", is_here=True, patience_seconds=-1.0)
    guarded = GuardedStore(WrappedStore(memory, before=calls.append), permits)
    with pytest.raises(LeaseLostError):
        guarded.rename("/d/f", "/d/g")
    assert calls == []
    assert guarded.take_statistics() == IOStatistics()


def test_statistics_have_hadoops_names_and_keep_failures_apart(memory: MemoryStore):
    clock = Clock()

    def take(seconds: float) -> Callable[[StoreCall], None]:
        def hook(call: StoreCall) -> None:
            clock.now += seconds * call.number

        return hook

    guarded = GuardedStore(WrappedStore(memory, before=take(0.010)), CountedPermits(), clock=clock)
    guarded.read("/d/f")
    guarded.read("/d/f")
    with pytest.raises(FileNotFoundError):
        guarded.read("/missing")
    assert guarded.take_statistics() == IOStatistics(
        counters={"op_open": 3, "op_open.failures": 1},
        minimums={"op_open.min": 10, "op_open.failures.min": 30},
        maximums={"op_open.max": 20, "op_open.failures.max": 30},
        meanstatistics={"op_open.mean": Mean(2, 30), "op_open.failures.mean": Mean(1, 30)},
    )
    assert guarded.take_statistics() == IOStatistics()  # taken once


@pytest.fixture
def hectic() -> Iterator[None]:
    """Threads take turns as often as they can, which shows a lost update within seconds."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hectic")
def test_each_request_is_counted_once_however_many_make_and_take_them(memory: MemoryStore):
    guarded, done = GuardedStore(memory, CountedPermits()), threading.Event()

    def take() -> IOStatistics:
        total = IOStatistics()
        while not done.is_set():
            total = aggregate(total, guarded.take_statistics())
        return total

    def make(_: int) -> None:
        for _ in range(2500):
            guarded.get_status("/d/f")

    with ThreadPoolExecutor(6) as pool:
        takers = [pool.submit(take) for _ in range(2)]
        list(pool.map(make, range(4)))
        done.set()
        totals = [taker.result() for taker in takers]
    total = aggregate(aggregate(*totals), guarded.take_statistics())
    assert total.counters == {"op_get_file_status": 10_000}
