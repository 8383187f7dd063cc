"""Work in a thread pool of this process: right for local files and small jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ray_committer.executors.base import THREAD_PREFIX, Item, OpenResources, Result, Work, call
from ray_committer.executors.inline import InlineExecutor
from ray_committer.ratelimit import RateLimit


class ThreadsExecutor(InlineExecutor):
    """A `WorkExecutor` of `threads` threads that share one set of resources."""

    name = "threads"

    def __init__(
        self, open_resources: OpenResources, limit: RateLimit | None = None, *, threads: int
    ) -> None:
        super().__init__(open_resources, limit)
        self.width = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=THREAD_PREFIX)

    def run_tasks(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting = iter(items)
        running: set[Future[Any]] = set()
        try:
            while True:
                for item in waiting:
                    running.add(self._pool.submit(call, work, self._resources, item))
                    if len(running) >= 2 * self.width:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()
            wait(running)

    def close(self) -> None:
        self._pool.shutdown()
        super().close()
