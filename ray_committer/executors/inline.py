"""Work in the calling thread, one item after another: for tests and the smallest jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ray_committer.events import EventSink
from ray_committer.executors.base import (
    DRIVER_THREADS,
    Item,
    OpenResources,
    Result,
    ResultRef,
    Work,
    call,
)
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import LimitStatistics, RateLimit


class InlineExecutor:
    """A `WorkExecutor` without concurrency."""

    name = "inline"
    width = 1
    threads = 1
    workers = 1
    starts_workers = False
    dashboard = ""

    def __init__(self, open_resources: OpenResources, limit: RateLimit | None = None) -> None:
        self.directories = DirectoryCoordinator()
        self._limit = limit or RateLimit()
        self.permits = Permits(self._limit, "here", is_here=True)
        self.driver = ThreadPool(DRIVER_THREADS)
        self._resources = open_resources(self.permits)

    def listen(self, sink: EventSink) -> None:
        """Do nothing: no worker of this process starts late or is lost."""

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        for item in items:
            yield call(work, self._resources, item)

    def run_with_ref(
        self, work: Work[tuple[Result, bytes]], items: Iterable[Item]
    ) -> Iterator[tuple[Result, ResultRef]]:
        return self.run(work, items)

    def start_workers(self, *, first_only: bool = False) -> None:
        """Do nothing: the calling thread does the work."""

    def admit_workers(self, check: Work[Result], item: Item) -> None:
        check(self._resources, item)

    def limit_statistics(self) -> LimitStatistics:
        return replace(self._limit.statistics(), requests=self.permits.made)

    def cancel(self) -> None:
        self._resources.cancel()

    def close(self) -> None:
        self.driver.close()
        self._resources.close()
        self.permits.close()
