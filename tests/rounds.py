"""Count the requests in a row of what is run, on a clock that moves only while all threads wait.

Each request takes one tick. All that are in flight together end together, so the time at the end is the
number of rounds, whatever the machine: the longest chain of requests, each of which waits for the one
before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.stores.base import StoreOperations
from ray_committer.testing import StoreCall, WrappedStore

TICK_SECONDS = 1.0
FEW = 8
_LOOK_SECONDS = 0.001


class Rounds:
    """The rounds of requests to `store`, which `of` counts; each is the requests in flight together."""

    def __init__(self, store: StoreOperations) -> None:
        self.store = WrappedStore(store, before=self._wait)
        self.rounds: list[list[StoreCall]] = []
        self._lock = threading.Lock()
        self._arrived: list[tuple[StoreCall, threading.Event]] = []
        self._is_counting = False

    def of(self, act: Callable[[], object]) -> list[list[StoreCall]]:
        """Run `act` in this thread; return the rounds of its requests, until all its threads wait."""
        self.rounds, self._is_counting = [], True
        ended = threading.Event()
        ticking = threading.Thread(target=self._tick, args=(ended,), name="clock")
        ticking.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(time, "monotonic", lambda: len(self.rounds) * TICK_SECONDS)
                act()
        finally:
            self._is_counting = False
            ended.set()
            ticking.join()
        return self.rounds

    def _wait(self, call: StoreCall) -> None:
        if self._is_counting:
            over = threading.Event()
            with self._lock:
                self._arrived.append((call, over))
            over.wait()

    def _tick(self, ended: threading.Event) -> None:
        me = threading.get_native_id()
        while not ended.is_set() or self._arrived:
            if not self._arrived or not _all_wait(me):
                time.sleep(_LOOK_SECONDS)
                continue
            with self._lock:
                over, self._arrived = self._arrived, []
            self.rounds.append([call for call, _ in over])
            for _, event in over:
                event.set()


def _all_wait(me: int) -> bool:
    """Whether all other threads of Python wait, and would go on waiting while nothing happens."""
    before = _switches(me)
    time.sleep(_LOOK_SECONDS)  # without the interpreter's lock, so a thread that waits for it gets it
    return before is not None and before == _switches(me)


def _switches(me: int) -> dict[int, str] | None:
    """How often the kernel has switched to each thread; None if one runs, or could."""
    found: dict[int, str] = {}
    for thread in threading.enumerate():
        if thread.native_id == me:
            continue
        if thread.native_id is None:
            return None
        try:
            status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return None
        lines = dict(line.split(":", 1) for line in status.splitlines())
        if not lines["State"].strip().startswith("S"):
            return None
        found[thread.native_id] = lines["voluntary_ctxt_switches"] + lines["nonvoluntary_ctxt_switches"]
    return found


def shown(rounds: list[list[StoreCall]]) -> str:
    """The rounds, one per line, with what each request is about."""
    return "\n".join(f"{number:3}: {', '.join(_names(calls))}" for number, calls in enumerate(rounds, 1))


def _names(calls: list[StoreCall]) -> list[str]:
    named = Counter(call.operation if len(calls) > FEW else _name(call) for call in calls)
    return [name if count == 1 else f"{count:,} {name}" for name, count in named.items()]


def _name(call: StoreCall) -> str:
    return f"{call.operation} {'/'.join(call.paths[0].split('/')[-2:])}"
