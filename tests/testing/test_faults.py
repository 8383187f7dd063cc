"""Each fault does to a call what its name says, and to no other call."""

from __future__ import annotations

import errno

import pytest

from ray_committer.errors import ThrottledError
from ray_committer.testing import (
    Fault,
    FaultKind,
    FaultSchedule,
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


def only(kind: FaultKind, number: int = 2, **more: object) -> FaultSchedule:
    return FaultSchedule(0, number, (Fault(kind, number, **more),))


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


def test_a_schedule_is_the_same_for_the_same_seed_and_covers_every_kind():
    schedules = [FaultSchedule.from_seed(seed, 40) for seed in range(300)]
    assert schedules == [FaultSchedule.from_seed(seed, 40) for seed in range(300)]
    faults = [fault for schedule in schedules for fault in schedule.faults]
    assert {fault.kind for fault in faults} == set(FaultKind)
    assert {fault.number for fault in faults} == set(range(1, 41))
    assert all(1 <= len(schedule.faults) <= 4 for schedule in schedules)


def test_a_schedule_is_written_so_that_it_can_be_run_again():
    schedule = FaultSchedule.from_seed(7, 30)
    assert eval(repr(schedule)) == schedule
    faults = (Fault(FaultKind.CRASH_AFTER, 3), Fault(FaultKind.THROTTLE, 5, calls=4))
    assert str(FaultSchedule(7, 30, faults)).endswith("# crash after call 3, throttle call 5-8")


@pytest.mark.parametrize(
    ("kind", "error", "applied"),
    [
        (FaultKind.CRASH_BEFORE, SimulatedCrash, False),
        (FaultKind.CRASH_AFTER, SimulatedCrash, True),
        (FaultKind.CRASH_WITHIN, SimulatedCrash, False),
        (FaultKind.FAIL, TimeoutError, False),
        (FaultKind.LOSE_RESPONSE, TimeoutError, True),
        (FaultKind.REPEAT, FileNotFoundError, True),
        (FaultKind.THROTTLE, ThrottledError, False),
    ],
)
def test_a_scheduled_fault_is_applied_or_not_as_it_says(store, kind, error, applied: bool):
    wrapped = only(kind).wrap(store)
    wrapped.read("/a")
    with pytest.raises(error):
        wrapped.rename("/a", "/b")
    assert ("/b" in store.files()) is applied


def test_after_a_scheduled_crash_every_call_dies(store):
    wrapped = only(FaultKind.CRASH_BEFORE).wrap(store)
    wrapped.read("/a")
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            wrapped.read("/a")


def test_a_crash_within_tears_a_write_and_a_recursive_delete(store):
    with pytest.raises(SimulatedCrash):
        only(FaultKind.CRASH_WITHIN, 1).wrap(store).write("/w", b"1234")
    assert store.read("/w") == b"12"
    with pytest.raises(SimulatedCrash):
        only(FaultKind.CRASH_WITHIN, 1).wrap(store).delete_directory("/d")
    assert list(store.files("/d")) == ["/d/2"]


def test_a_lost_response_hides_an_error_of_the_store_as_well(store):
    with pytest.raises(TimeoutError):
        only(FaultKind.LOSE_RESPONSE, 1).wrap(store).read("/missing")


def test_a_scheduled_delay_sleeps_and_goes_on(store):
    slept: list[float] = []
    wrapped = only(FaultKind.DELAY, 1, seconds=2.0).wrap(store, sleep=slept.append)
    assert wrapped.read("/a") == b"text"
    assert slept == [2.0]


def test_a_simulated_failure_looks_like_a_failure_of_the_store(store):
    with pytest.raises(OSError, match="simulated failure of read") as caught:
        WrappedStore(store, before=fail_at(1, PermissionError)).read("/a")
    assert caught.value.errno == errno.EIO
