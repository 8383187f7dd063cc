"""Each fault does to a call what its name says, and to no other call."""

from __future__ import annotations

import errno

import pytest

from ray_committer.errors import ThrottledError
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    delay_at,
    fail_at,
    throttle,
    throttle_above,
    together,
)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.mkdirs("/d")
    for name in ("/a", "/d/1", "/d/2"):
        store.write(name, b"text")
    return store


def test_calls_are_numbered_from_one_and_equal_whatever_their_number(store):
    calls: list[StoreCall] = []
    wrapped = WrappedStore(store, before=calls.append)
    wrapped.read("/a")
    wrapped.read("/a")
    assert [call.number for call in calls] == [1, 2]
    assert calls[0] == calls[1]


def test_a_crash_before_a_call_keeps_it_from_the_store(store):
    wrapped = WrappedStore(store, before=crash_at(2))
    wrapped.rename("/a", "/b")
    with pytest.raises(SimulatedCrash):
        wrapped.rename("/b", "/c")
    assert "/b" in store.files()


def test_a_crash_after_a_call_happens_once_the_store_has_done_it(store):
    with pytest.raises(SimulatedCrash):
        WrappedStore(store, after=crash_at(1)).rename("/a", "/b")
    assert "/b" in store.files()


@pytest.mark.parametrize(("when", "arrived"), [("before", False), ("after", True)])
def test_a_failure_before_is_not_applied_and_after_loses_the_answer(store, when: str, arrived: bool):
    wrapped = WrappedStore(store, **{when: fail_at(1, ConnectionResetError)})
    with pytest.raises(ConnectionResetError) as caught:
        wrapped.rename("/a", "/b")
    assert caught.value.filename == "/a"
    assert ("/b" in store.files()) is arrived
    assert wrapped.read("/d/1") == b"text"


def test_throttling_lasts_for_a_run_of_calls_and_says_how_long_to_wait(store):
    wrapped = WrappedStore(store, before=throttle(2, 2, retry_after_seconds=1.5))
    wrapped.read("/a")
    for _ in range(2):
        with pytest.raises(ThrottledError) as caught:
            wrapped.read("/a")
        assert caught.value.retry_after_seconds == 1.5
    assert wrapped.read("/a") == b"text"


def test_throttling_above_a_rate_counts_the_last_second(store):
    times = iter([0.0, 0.4, 0.5, 0.9, 1.0, 1.1])
    wrapped = WrappedStore(store, before=throttle_above(2, clock=times.__next__))
    answers = []
    for _ in range(6):
        try:
            wrapped.read("/a")
            answers.append(None)
        except ThrottledError as e:
            answers.append(e.retry_after_seconds)
    assert answers == [None, None, pytest.approx(0.5), pytest.approx(0.1), None, pytest.approx(0.3)]


def test_a_delay_holds_one_call(store):
    slept: list[float] = []
    wrapped = WrappedStore(store, before=delay_at(2, 3.0, sleep=slept.append))
    for _ in range(3):
        wrapped.read("/a")
    assert slept == [3.0]


def test_hooks_are_called_together_until_one_raises(store):
    calls: list[StoreCall] = []
    wrapped = WrappedStore(store, before=together(calls.append, fail_at(1), calls.append))
    with pytest.raises(TimeoutError):
        wrapped.read("/a")
    wrapped.read("/a")
    assert [call.number for call in calls] == [1, 2, 2]


def test_a_simulated_failure_looks_like_a_failure_of_the_store(store):
    with pytest.raises(OSError, match="simulated failure of read") as caught:
        WrappedStore(store, before=fail_at(1, PermissionError)).read("/a")
    assert caught.value.errno == errno.EIO
