"""Each scheduled fault does to a call what its kind says; a schedule can be run again."""

from __future__ import annotations

import pytest

from ray_committer.errors import ThrottledError
from ray_committer.testing import MemoryStore, SimulatedCrash
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.mkdirs("/d")
    for name in ("/a", "/d/1", "/d/2"):
        store.write(name, b"text")
    return store


def only(kind: FaultKind, number: int = 2, **more: object) -> FaultSchedule:
    return FaultSchedule(0, number, (Fault(kind, number, **more),))


def test_a_schedule_is_the_same_for_the_same_seed_and_covers_every_kind():
    schedules = [FaultSchedule.from_seed(seed, 40) for seed in range(300)]
    assert schedules == [FaultSchedule.from_seed(seed, 40) for seed in range(300)]
    faults = [fault for schedule in schedules for fault in schedule.faults]
    assert {fault.kind for fault in faults} == set(FaultKind)
    assert {fault.number for fault in faults} == set(range(1, 41))
    assert all(1 <= len(schedule.faults) <= 4 for schedule in schedules)


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


def test_a_crash_within_tears_a_write_and_a_recursive_delete(store):
    with pytest.raises(SimulatedCrash):
        only(FaultKind.CRASH_WITHIN, 1).wrap(store).write("/w", b"1234")
    assert store.read("/w") == b"12"
    with pytest.raises(SimulatedCrash):
        only(FaultKind.CRASH_WITHIN, 1).wrap(store).delete_directory("/d")
    assert list(store.files("/d")) == ["/d/2"]
