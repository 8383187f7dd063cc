"""Processes that each run one operation on a store, and stop at its requests until they are resumed."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray_committer.errors import RayCommitterError
from ray_committer.job_files import owners
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store
from ray_committer.testing.faults import StoreCall, WrappedStore

STOPPED = "stopped"
_END = b"\n.\n"

Work = Callable[[StoreOperations], Any]

OPENED: list[Callable[[StoreSpec], StoreOperations]] = [open_store]
"""The last one opens the stores of all processes."""


@dataclass(frozen=True, slots=True)
class Told:
    """How an operation ended: ``ended``, ``failed`` or ``crashed``; its exit code; and its answer."""

    how: str
    exit_code: int
    text: Any


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a process stops: ``before`` or ``after`` one `request`, or every request if it is None."""

    request: int | None = None
    when: str = "before"


@dataclass(slots=True)
class Child:
    """A process that runs one operation, and can be stopped in it."""

    pid: int
    words: int
    leave: int

    def read(self) -> Any:
        """Its next message: `STOPPED`, or the `Told` at its end; None if it died."""
        data = b""
        while not data.endswith(_END):
            part = os.read(self.words, 65536)
            if not part:
                return None
            data += part
        return pickle.loads(data.removesuffix(_END))

    def resume(self) -> None:
        """Let it continue from where it is stopped."""
        os.write(self.leave, b"g")

    def kill(self) -> None:
        """Kill it where it is."""
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Forget a process that has ended."""
        os.waitpid(self.pid, 0)
        os.close(self.words)
        os.close(self.leave)


def start(work: Work, spec: StoreSpec, stop: Stop | None = None, *, trusts: bool = True) -> Child:
    """Fork a process that does `work` on its own store; if it does not trust, it takes all other
    processes for dead."""
    words, told = os.pipe()
    wait, leave = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        os.close(wait)
        return Child(pid, words, leave)
    try:
        os.close(words)
        os.close(leave)
        if not trusts:
            owners.DEAD_SECONDS = -1.0
        _say(told, _do(work, spec, stop, told, wait))
    finally:
        os._exit(0)


def done(work: Work, spec: StoreSpec) -> Any:
    """Do `work` in its own process and return its result; ``RuntimeError`` if it fails."""
    child = start(work, spec, trusts=False)
    told = child.read()
    child.reap()
    if told is None or told.how != "ended":
        raise RuntimeError(told.text if told else "the process died")
    return told.text


def attempt(work: Work, store: StoreOperations) -> Told:
    """Do `work`, and return how it ended."""
    try:
        return Told("ended", 0, work(store))
    except RayCommitterError as e:
        return Told("failed", e.exit_code, f"{type(e).__name__}: {e}")
    except OSError as e:
        return Told("failed", 3, f"{type(e).__name__}: {e}")
    except Exception:  # noqa: BLE001 - to be judged
        return Told("crashed", -1, traceback.format_exc())


def _do(work: Work, spec: StoreSpec, stop: Stop | None, told: int, wait: int) -> Told:
    one_at_a_time = threading.Lock()

    def hook(call: StoreCall) -> None:
        if stop is not None and stop.request in (None, call.number):
            with one_at_a_time:
                _say(told, STOPPED)
                os.read(wait, 1)

    store = OPENED[-1](spec)
    if stop is None:
        return attempt(work, store)
    is_before = stop.when == "before"
    return attempt(
        work, WrappedStore(store, before=hook) if is_before else WrappedStore(store, after=hook)
    )


def _say(told: int, word: Any) -> None:
    os.write(told, pickle.dumps(word) + _END)
