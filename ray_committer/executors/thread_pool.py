"""A thread pool for the requests of one process, with as little work per request as possible.

A `Future` per item was measured to cost as much processor time as all the rest of a rename.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

CLOSE_SECONDS = 1.0

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """A pool of `size` threads, started on first use, that work for several callers at once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` to all items; results in any order, the first exception raised at the end."""
        wanted = list(items)
        if not wanted:
            return iter(())
        self._start()
        batch = _Batch(function, len(wanted))
        for item in wanted:
            self._queue.put(partial(batch.do, item))
        return iter(batch.wait())

    def close(self) -> None:
        """End the threads, which are idle when no caller waits; idempotent."""
        with self._lock:
            # Taken out under the lock: a second `close` sends no second end signal.
            ending, self._threads = self._threads, []
        for _ in ending:
            self._queue.put(None)
        for thread in ending:
            # Not without end: a thread can hang in a request, and it is a daemon.
            thread.join(CLOSE_SECONDS)

    def _start(self) -> None:
        with self._lock:
            while len(self._threads) < self._size:
                thread = threading.Thread(target=self._work, name="ray-committer", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _work(self) -> None:
        while (do := self._queue.get()) is not None:
            do()


class _Batch(Generic[Item, Result]):
    """The items of one call; appending to a list is atomic, so no lock is needed."""

    def __init__(self, function: Callable[[Item], Result], size: int) -> None:
        self._function = function
        self._size = size
        self._ended: list[Result | None] = []
        self._failures: list[BaseException] = []
        self._done = threading.Event()

    def do(self, item: Item) -> None:
        result = None
        # After the first failure the rest is only counted: `wait` returns soon, and no more is changed.
        if not self._failures:
            try:
                result = self._function(item)
            except BaseException as e:  # noqa: BLE001 - raised where it is waited for
                self._failures.append(e)
        self._ended.append(result)
        # Two threads may both see the last one; setting an event twice is harmless.
        if len(self._ended) == self._size:
            self._done.set()

    def wait(self) -> list[Result]:
        self._done.wait()
        if self._failures:
            raise self._failures[0]
        return self._ended  # type: ignore[return-value]
