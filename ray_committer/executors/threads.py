"""Work in a thread pool of this process: right for local files and small jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import Empty, SimpleQueue

from ray_committer.executors.base import THREAD_PREFIX, Item, OpenResources, Result, Work, call
from ray_committer.executors.inline import InlineExecutor
from ray_committer.limits.ratelimit import RateLimit

_LOOK_SECONDS = 0.01
"""How often work is checked while one thread does it."""
_SLACK_SECONDS = 0.01
"""How long one thread can wait before more threads are used."""
_END = object()


class ThreadsExecutor(InlineExecutor):
    """A `WorkExecutor` of `threads` threads that share one set of resources.

    One item is worked on at a time until the work has waited for a slow store longer than it has
    computed. Each call of `run` is judged by itself, until this was seen once. Threads of one
    interpreter that only compute slow each other down: a commit of 2,000 local files took half as long
    again with 32 threads as with one.
    """

    name = "threads"

    def __init__(
        self, open_resources: OpenResources, limit: RateLimit | None = None, *, threads: int
    ) -> None:
        super().__init__(open_resources, limit)
        self.width = threads
        self._clocks: list[int] = []
        self._waits = False
        self._pool = ThreadPoolExecutor(threads, THREAD_PREFIX, initializer=self._add_clock)

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting = iter(items)
        running: set[Future[Result]] = set()
        ended: SimpleQueue[Future[Result]] = SimpleQueue()  # `wait` would look at all that run
        waited, computed = 0.0, self._computed()
        try:
            while True:
                # Twice the width: a thread that ends finds its next item without a wait for this loop.
                at_once = 2 * self.width if self._waits else 1
                while len(running) < at_once and (item := next(waiting, _END)) is not _END:
                    future = self._pool.submit(call, work, self._resources, item)
                    running.add(future)
                    future.add_done_callback(ended.put)
                if not running:
                    return
                begun = time.monotonic()
                done = _next(ended, None if self._waits else _LOOK_SECONDS)
                waited += time.monotonic() - begun
                if not self._waits:
                    computing = self._computed() - computed
                    # The clocks count all threads of this executor, also the threads of another `run`.
                    # So a wrong answer is only late, never a pool of threads for work that computes.
                    self._waits = waited > 2 * computing + _SLACK_SECONDS
                if done is not None:
                    running.remove(done)
                    yield done.result()
        finally:
            for future in running:
                # Only what has not begun. What runs may be in the middle of a rename and is waited for.
                future.cancel()
            wait(running)

    def _add_clock(self) -> None:
        with suppress(AttributeError, OSError):  # without a clock, all time counts as waiting
            self._clocks.append(time.pthread_getcpuclockid(threading.get_ident()))

    def _computed(self) -> float:
        """Return the seconds of processor time that the threads have used."""
        return sum(time.clock_gettime(clock) for clock in self._clocks)

    def close(self) -> None:
        self._pool.shutdown()
        super().close()


def _next(ended: SimpleQueue[Future[Result]], seconds: float | None) -> Future[Result] | None:
    try:
        return ended.get(timeout=seconds)
    except Empty:
        return None
