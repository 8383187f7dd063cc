"""Faults at calls of a store, drawn from a seed, so that a failing run can be reported and repeated.

The kinds of faults are those that can make commits wrong: a process that dies, an answer that is lost, a
client that sends a request twice, a write or a recursive delete of which only half happened.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from ray_committer.errors import ThrottledError
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.testing.faults import SimulatedCrash, StoreCall, WrappedStore, failure

LONGEST_THROTTLING_CALLS = 6
MOST_FAULTS = 4
RENAMES = ("rename", "replace", "advance", "move_directory", "move_whole", "set_aside")
FAILURES = (ConnectionResetError, TimeoutError, PermissionError)


class FaultKind(StrEnum):
    """What happens to a call; all calls after a crash also die, in every thread."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_WITHIN = "crash within"
    """Half of a write or of a recursive delete happens; any other call does not."""
    FAIL = "fail"
    """Not applied; the caller gets an error."""
    LOSE_RESPONSE = "lose the response of"
    """Applied; the caller gets an error."""
    REPEAT = "repeat"
    """Applied, and sent again by the client; the caller gets the second answer: a source is gone."""
    THROTTLE = "throttle"
    """Not applied; the store asks the callers of this call and of the next calls to wait."""
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at call `number`; `calls` is the number of throttled calls in a row."""

    kind: FaultKind
    number: int
    calls: int = 1
    error: type[OSError] = TimeoutError
    seconds: float | None = None

    def __str__(self) -> str:
        last = f"-{self.number + self.calls - 1}" if self.calls > 1 else ""
        return f"{self.kind.value} call {self.number}{last}"


@dataclass(frozen=True, slots=True, repr=False)
class FaultSchedule:
    """The faults of one run over a store, by the number of the call."""

    seed: int
    calls: int
    faults: tuple[Fault, ...]

    @classmethod
    def from_seed(cls, seed: int, calls: int) -> FaultSchedule:
        """Draw one to four faults among the first `calls` calls; same arguments give the same faults."""
        random = Random(seed)
        numbers = random.sample(range(1, calls + 1), min(calls, random.randint(1, MOST_FAULTS)))
        return cls(seed, calls, tuple(_draw(random, number) for number in sorted(numbers)))

    def __repr__(self) -> str:
        """The expression that creates this schedule again, and its faults."""
        what = ", ".join(map(str, self.faults))
        return f"FaultSchedule.from_seed({self.seed}, {self.calls})  # {what}"

    def wrap(
        self, store: StoreOperations, *, sleep: Callable[[float], None] = time.sleep
    ) -> WrappedStore:
        """Return `store` with these faults; calls are counted from now."""
        run = _Run(self, store, sleep)
        return WrappedStore(store, before=run.before, after=run.after, write_data=run.write_data)


class _Run:
    """One pass through a schedule; remembers that the process has died."""

    def __init__(
        self, schedule: FaultSchedule, store: StoreOperations, sleep: Callable[[float], None]
    ) -> None:
        self._store = store
        self._sleep = sleep
        self._died = False
        self._faults = {
            number: fault
            for fault in reversed(schedule.faults)
            for number in range(fault.number, fault.number + fault.calls)
        }

    def before(self, call: StoreCall) -> None:
        if self._died:
            raise SimulatedCrash(call)
        fault = self._faults.get(call.number)
        if fault is None:
            return
        match fault.kind:
            case FaultKind.CRASH_BEFORE:
                self._die(call)
            case FaultKind.CRASH_WITHIN if call.operation != "write":
                if call.operation in ("delete_directory", "delete_listed"):
                    delete_half(self._store, call.paths[0])
                self._die(call)
            case FaultKind.FAIL:
                raise failure(fault.error, call)
            case FaultKind.THROTTLE:
                raise ThrottledError(call.paths[0], fault.seconds)
            case FaultKind.DELAY:
                self._sleep(fault.seconds or 0)

    def after(self, call: StoreCall) -> None:
        fault = self._faults.get(call.number)
        if fault is None:
            return
        match fault.kind:
            case FaultKind.CRASH_AFTER | FaultKind.CRASH_WITHIN:
                self._die(call)
            case FaultKind.LOSE_RESPONSE:
                raise failure(fault.error, call)
            case FaultKind.REPEAT if call.operation in RENAMES:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), call.paths[0])

    def write_data(self, call: StoreCall, data: bytes) -> bytes:
        fault = self._faults.get(call.number)
        torn = fault is not None and fault.kind is FaultKind.CRASH_WITHIN
        return data[: len(data) // 2] if torn else data

    def _die(self, call: StoreCall) -> None:
        self._died = True
        raise SimulatedCrash(call)


def delete_half(store: StoreOperations, directory: str) -> None:
    """Delete the first half of the files below `directory`: a recursive delete, interrupted."""
    found, level = [], [directory]
    while level:
        listed = [status for path in level for status in _list(store, path)]
        found += [status.path for status in listed if not status.is_directory]
        level = [status.path for status in listed if status.is_directory]
    for path in sorted(found)[: -(-len(found) // 2)]:
        store.delete_file(path)


def _list(store: StoreOperations, path: str) -> list[FileStatus]:
    try:
        return store.list_status(path)
    except FileNotFoundError:
        return []


def _draw(random: Random, number: int) -> Fault:
    kind = random.choice(list(FaultKind))
    if kind is FaultKind.THROTTLE:
        calls = random.randint(1, LONGEST_THROTTLING_CALLS)
        return Fault(kind, number, calls, seconds=random.choice((None, 0.0, 0.01)))
    if kind is FaultKind.DELAY:
        return Fault(kind, number, seconds=0.001)
    return Fault(kind, number, error=random.choice(FAILURES))
