"""The threads that make the requests of one process, with as little work per request as possible.

A `Future` per item was measured to cost as much processor time as all the rest of a rename. So a thread
takes its next item itself, and a thread without work sleeps until there is some.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

CLOSE_SECONDS = 1.0

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """Up to `size` threads, started when there is work for them, that work for several callers at once.

    A caller that is one of the threads works on its own items, too, so it never waits for a thread that
    is free. While the threads are `apart`, it does so alone; `join` lets all others help at once.
    """

    def __init__(self, size: int, *, apart: bool = False) -> None:
        self._size = size
        self._tickets: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._free = 0
        """The threads that wait for a ticket, less the tickets; below 0 if there are more of these."""
        self._own = threading.local()
        self._apart: list[_Batch[object, object]] | None = [] if apart else None

    @property
    def is_apart(self) -> bool:
        return self._apart is not None

    def begin(self, function: Callable[[], None]) -> None:
        """Let one thread call `function`, which must not raise."""
        self._call(function, 1)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` to all items; results in any order, the first exception raised at the end."""
        batch = _Batch(function, deque(items))
        if not batch.left:
            return iter(())
        is_own = getattr(self._own, "is_thread", False)
        helpers = min(batch.left, self._size) - is_own
        if helpers > 0 and not (is_own and self._is_alone(batch)):
            self._call(batch.work, helpers)
        if is_own:
            batch.work()
        return iter(batch.wait())

    def join(self) -> None:
        """From now on let threads help each other; idempotent."""
        with self._lock:
            batches, self._apart = self._apart or (), None
        for batch in batches:
            self._call(batch.work, min(batch.left, self._size - 1))

    def computed(self) -> float:
        """Return the seconds of processor time that the threads have used."""
        seconds = 0.0
        for thread in self._threads:
            with suppress(AttributeError, OSError):  # without a clock, all time counts as waiting
                seconds += time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
        return seconds

    def close(self) -> None:
        """End the threads, which are idle when no caller waits; idempotent."""
        with self._lock:
            # Taken out under the lock: a second `close` sends no second end signal.
            ending, self._threads = self._threads, []
            self._free -= len(ending)
        for _ in ending:
            self._tickets.put(None)
        for thread in ending:
            # Not without end: a thread can hang in a request, and it is a daemon.
            thread.join(CLOSE_SECONDS)

    def _is_alone(self, batch: _Batch[Item, Result]) -> bool:
        """Whether one thread does the batch by itself until `join`, which is told of it."""
        with self._lock:
            if self._apart is None:
                return False
            self._apart[:] = [begun for begun in self._apart if begun.left]
            self._apart.append(batch)  # type: ignore[arg-type]
            return True

    def _call(self, function: Callable[[], None], threads: int) -> None:
        """Let a number of threads call `function`, as soon as each is free."""
        with self._lock:
            for _ in range(threads):
                self._tickets.put(function)
            self._free -= threads
            for _ in range(min(-self._free, self._size - len(self._threads))):
                thread = threading.Thread(target=self._work, name="ray-committer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the machine has no room for more: the others do the work
                    if not self._threads:
                        raise
                    break
                self._threads.append(thread)
                self._free += 1

    def _work(self) -> None:
        self._own.is_thread = True
        while (do := self._tickets.get()) is not None:
            do()
            del do  # no result is kept while the thread waits
            with self._lock:
                self._free += 1


class _Batch(Generic[Item, Result]):
    """The items of one call, which the threads take until none is left."""

    def __init__(self, function: Callable[[Item], Result], items: deque[Item]) -> None:
        self._function = function
        self._items = items  # one is taken in one step, so that needs no lock
        self._lock = threading.Lock()
        self._working = 0
        self._ended: list[Result] = []
        self._failure: BaseException | None = None
        self._done = threading.Event()

    @property
    def left(self) -> int:
        """How many items no thread has taken yet."""
        return len(self._items)

    def work(self) -> None:
        """Work on items as long as there are any."""
        # Counted before an item is taken: if none is left and nobody works, all have ended.
        with self._lock:
            self._working += 1
        take, function, ended, failure = self._items.popleft, self._function, list[Result](), None
        while True:
            try:
                item = take()
            except IndexError:
                break
            try:
                ended.append(function(item))
            except BaseException as e:  # noqa: BLE001 - raised where it is waited for
                failure = e
                self._items.clear()  # those in progress end, and no other begins
        with self._lock:
            self._failure = self._failure or failure
            self._ended += ended
            self._working -= 1
            if not self._working:
                self._done.set()

    def wait(self) -> list[Result]:
        self._done.wait()
        if self._failure is not None:
            raise self._failure
        return self._ended
