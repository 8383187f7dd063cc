"""The threads that make the requests of one process, with as little work per request as possible.

A `Future` per item was measured to cost as much processor time as all the rest of a rename. So a thread
takes its next item itself, and a thread without work sleeps until there is some.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

CLOSE_SECONDS = 1.0

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """Up to `size` threads, started when there is work for them, that work for several callers at once.
    A caller that is one of them works on its own items, too, so it never waits for a free thread. While
    the threads are `apart`, it does so alone; `join` lets all others help at once."""

    def __init__(self, size: int, *, apart: bool = False) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._open: deque[_Shared] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._wake: SimpleQueue[bool] = SimpleQueue()
        """One for each thread to wake, which is idle no more; False ends it."""
        self._own = threading.local()
        self._apart: list[_Shared] | None = [] if apart else None

    @property
    def is_apart(self) -> bool:
        return self._apart is not None

    def begin(self, function: Callable[[], object]) -> None:
        """Let one thread call `function`, which must not raise."""
        # First: what it will share is ready when the others have no more of what is shared now.
        self._share(_Batch(lambda call: call(), deque([function])), 1, is_first=True)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` to all items; results in any order, the first exception raised at the end."""
        batch = _Batch(function, deque(items))
        if not batch.left:
            return iter(())
        is_own = getattr(self._own, "is_thread", False)
        if not (is_own and self._is_alone(batch)):
            self._share(batch, batch.left - is_own)
        if is_own:
            batch.work()
        return iter(batch.wait())

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply `function` to all items, some in the calling thread; results in order. After an error no
        other item begins; when all have ended, the first error, in this order, is raised."""
        with self.beside(function, items, most=len(items) - 1) as ended:
            pass
        return ended

    @contextmanager
    def beside(
        self, function: Callable[[Item], Result], items: Sequence[Item], *, most: int | None = None
    ) -> Iterator[list[Result]]:
        """Apply `function` to all items while the block runs, `most` at once. The calling thread
        does after it what no other has begun; then the list has the results, or it raises as `each`. If
        the block raises, no other item begins."""
        calls = [Call(partial(function, item)) for item in items]

        def make(call: Call[Result]) -> None:
            call()
            call.result()  # raises what it has raised, so that no other begins

        batch = _Batch(make, deque(calls))
        with suppress(RuntimeError):  # no thread can start: the calling thread does all
            self._share(batch, len(calls) if most is None else most)
        results: list[Result] = []
        try:
            yield results
        except BaseException:
            batch.drop()
            raise
        finally:
            batch.work()
            batch.join()
            for call in calls:
                call.raise_interrupt()
        results += [call.result() for call in calls]

    def join(self) -> None:
        """From now on let threads help each other; idempotent."""
        with self._lock:
            batches, self._apart = self._apart or (), None
        for batch in batches:
            self._share(batch, batch.left)

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
            self._idle -= len(ending)
        for _ in ending:
            self._wake.put(False)
        for thread in ending:
            # Not without end: a thread can hang in a request, and it is a daemon.
            thread.join(CLOSE_SECONDS)

    def _is_alone(self, batch: _Shared) -> bool:
        """Whether one thread does the batch by itself until `join`, which is told of it."""
        with self._lock:
            if self._apart is None:
                return False
            self._apart[:] = [begun for begun in self._apart if begun.left]
            self._apart.append(batch)
            return True

    def _share(self, batch: _Shared, most: int, *, is_first: bool = False) -> None:
        """Let the threads work on a batch, `most` of them at the same time."""
        if most <= 0:
            return
        with self._lock:
            (self._open.appendleft if is_first else self._open.append)(batch)
            woken = min(most, self._idle)
            self._idle -= woken
            for _ in range(min(most - woken, self._size - len(self._threads))):
                thread = threading.Thread(target=self._work, name="ray-committer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the machine has no room for more: the others do the work
                    if not self._threads:
                        raise
                    break
                self._threads.append(thread)
        for _ in range(woken):
            self._wake.put(True)

    def _work(self) -> None:
        self._own.is_thread = True
        while True:
            with self._lock:
                while self._open and not self._open[0].left:
                    self._open.popleft()
                batch = self._open[0] if self._open else None
                self._idle += batch is None
            if batch is not None:
                batch.work()
                del batch  # no result is kept while the thread waits
            elif not self._wake.get():
                return


class Call(Generic[Result]):
    """A call of a function, whose result or exception is kept for who waits for it."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._result: Result | None = None
        self._failure: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._result = self._function()
        except BaseException as e:  # noqa: BLE001 - raised where it is waited for
            self._failure = e

    def raise_interrupt(self) -> None:
        """Raise the exception of the call if it is to end more than the call, such as Ctrl-C."""
        if self._failure is not None and not isinstance(self._failure, Exception):
            raise self._failure

    def result(self) -> Result:
        if self._failure is not None:
            raise self._failure
        return self._result  # type: ignore[return-value]


class _Shared(Protocol):
    """Work for several threads."""

    @property
    def left(self) -> int:
        """How many items no thread has taken yet."""

    def work(self) -> None:
        """Work on items as long as there are any."""


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
        return len(self._items)

    def work(self) -> None:
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

    def drop(self) -> None:
        self._items.clear()

    def join(self) -> None:
        try:
            self._done.wait()
        except BaseException:  # an interrupt: what has begun may be in the middle of a request
            self.drop()
            self._done.wait()
            raise

    def wait(self) -> list[Result]:
        self._done.wait()
        if self._failure is not None:
            raise self._failure
        ended, self._ended = self._ended, []  # the pool may keep this until it looks for more work
        return ended
