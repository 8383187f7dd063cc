"""The deadlines of requests, and threads that can be abandoned for calls that have no deadline.

Clients in native code wait as long as a server keeps a connection open. To hand a rename to another
thread was measured to add 3 to 16 % to its CPU time.
"""

from __future__ import annotations

import math
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

DEADLINE_SECONDS = 60.0
LEAST_SECONDS = 1.0
"""The time that even a store gets from which an answer is wanted at once."""


def first_deadline(retry_seconds: float) -> float:
    """Return the deadline of requests to a store that has answered none yet. All that are made in
    `retry_seconds` end within this time, also if the store accepts connections and stays silent."""
    seconds = max(LEAST_SECONDS, retry_seconds)
    return seconds / math.ceil(seconds / DEADLINE_SECONDS)


class DeadlineThreads:
    """Makes calls for any number of threads, each call in an idle daemon thread or a new one. The daemon
    threads end with this object. Until one call has ended, each has at most `first_seconds`."""

    def __init__(self, seconds: float, *, first_seconds: float | None = None) -> None:
        self._all_seconds = seconds
        self._seconds = seconds if first_seconds is None else first_seconds
        self._idle: list[_Helper] = []
        # Not at exit: a daemon thread that hangs in native code would hold the interpreter.
        weakref.finalize(self, _end, self._idle).atexit = False

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function`; ``TimeoutError`` if it takes too long, although it may still end later."""
        try:
            helper = self._idle.pop()
        except IndexError:
            helper = _Helper()
        try:
            result, error = helper.call(lambda: function(*args, **kwargs), self._seconds)
        except TimeoutError:
            helper.end()
            raise
        # The store has answered, so from now on it is only slow, and not absent.
        self._seconds = self._all_seconds
        self._idle.append(helper)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _end(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.end()


class _Helper:
    """One thread, with one call at a time."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="deadline", daemon=True).start()

    def call(self, function: Callable[[], Any], seconds: float) -> tuple[Any, BaseException | None]:
        self._calls.put(function)
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer within {seconds:g} s") from None

    def end(self) -> None:
        """Let the thread end after its call."""
        self._calls.put(None)

    def _run(self) -> None:
        while (function := self._calls.get()) is not None:
            answer: tuple[Any, BaseException | None]
            try:
                answer = function(), None
            except BaseException as e:  # noqa: BLE001 - any error is raised in the calling thread
                answer = None, e
            self._answers.put(answer)
            del function, answer  # no result is kept while the thread waits
