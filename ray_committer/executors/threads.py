"""Work in the threads of this process: right for local files and small jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from queue import Empty, SimpleQueue

from ray_committer.executors.base import Item, OpenResources, Result, Work, call
from ray_committer.executors.inline import InlineExecutor
from ray_committer.executors.thread_pool import Call, ThreadPool
from ray_committer.limits.ratelimit import RateLimit

AT_ONCE = 3
"""Items in progress: one whose last requests are under way, one at work, and one that is being read."""
_LOOK_SECONDS = 0.01
"""How often work is checked while one thread does it."""
_SLACK_SECONDS = 0.01
"""How long one thread can wait before more threads are used."""
_END = object()


class ThreadsExecutor(InlineExecutor):
    """A `WorkExecutor` of one worker in this process: its `threads` make the requests of a few items.

    One thread does all work until it has waited for a slow store longer than it has computed. Each call
    of `run` is judged by itself, until this was seen once. Threads of one interpreter that only compute
    slow each other down: a commit of 2,000 local files took half as long again with 32 threads as with
    one. If it is known that work `waits`, as on a store behind a network, all threads work at once.
    """

    name = "threads"

    def __init__(
        self,
        open_resources: OpenResources,
        limit: RateLimit | None = None,
        *,
        threads: int,
        waits: bool = False,
    ) -> None:
        super().__init__(open_resources, limit)
        self.threads = self.workers = threads
        self._pool = self._resources.threads = ThreadPool(threads, apart=not waits)

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting, running = iter(items), 0
        ended: SimpleQueue[Call[Result]] = SimpleQueue()

        def work_on(this: Call[Result]) -> None:
            this()
            ended.put(this)

        waited, computed = 0.0, self._pool.computed()
        try:
            while True:
                at_once = 1 if self._pool.is_apart else AT_ONCE
                while running < at_once and (item := next(waiting, _END)) is not _END:
                    self._pool.begin(partial(work_on, Call(partial(call, work, self._resources, item))))
                    running += 1
                if not running:
                    return
                begun = time.monotonic()
                done = _next(ended, _LOOK_SECONDS if self._pool.is_apart else None)
                waited += time.monotonic() - begun
                if self._pool.is_apart:
                    computing = self._pool.computed() - computed
                    # The clocks count all threads of this executor, also the threads of another `run`.
                    # So a wrong answer is only late, never many threads for work that computes.
                    if waited > 2 * computing + _SLACK_SECONDS:
                        self._pool.join()
                if done is not None:
                    running -= 1
                    yield done.result()
        finally:
            # What runs may be in the middle of a rename and is waited for.
            for _ in range(running):
                ended.get()

    def close(self) -> None:
        self._pool.close()
        super().close()


def _next(ended: SimpleQueue[Call[Result]], seconds: float | None) -> Call[Result] | None:
    try:
        return ended.get(timeout=seconds)
    except Empty:
        return None
