"""Work in a thread pool of this process: right for local files and small jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ray_committer.directories import Directories, DirectoryCoordinator
from ray_committer.executors.base import Item, OpenResources, Result, Work


class ThreadsExecutor:
    """A `WorkExecutor` of `threads` threads that share one set of resources."""

    name = "threads"

    def __init__(self, open_resources: OpenResources, *, threads: int) -> None:
        self.directories: Directories = DirectoryCoordinator()
        self.width = threads
        self._resources = open_resources()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ray-committer")

    def run_tasks(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting = iter(items)
        running: set[Future[Any]] = set()
        try:
            while True:
                for item in waiting:
                    running.add(self._pool.submit(work, self._resources, item))
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

    def run_on_workers(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        return self.run_tasks(work, items)

    def start_workers(self) -> None:
        """They are here."""

    def admit_workers(self, check: Work[Item, Result], item: Item) -> None:
        check(self._resources, item)

    def cancel(self) -> None:
        self._resources.cancel()

    def close(self) -> None:
        self._pool.shutdown()
