"""The resources for work in one process: the store, the job attempt, and the packs already read."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ray_committer.executors.base import Place
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import open_store
from ray_committer.work.packs import PackReader

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Opens a `Worker` in a process other than the driver; this is sent there instead of a `Worker`."""

    store: StoreSpec
    job: JobAttempt
    concurrency: int
    retry_seconds: float = 300.0

    def __call__(self, permits: Permits) -> Worker:
        return Worker(
            open_store(self.store, retry_seconds=self.retry_seconds),
            self.job,
            permits,
            self.concurrency,
            in_driver=False,
            retry_seconds=self.retry_seconds,
        )


class Worker:
    """The resources of one process, used by several threads; each request of `store` needs a permit."""

    def __init__(
        self,
        store: StoreOperations,
        job: JobAttempt,
        permits: Permits,
        concurrency: int = 1,
        *,
        in_driver: bool,
        retry_seconds: float = 300.0,
    ) -> None:
        self.store = GuardedStore(store, permits, retry_seconds=retry_seconds)
        self.job = job
        self.packs = PackReader(self.store, job)
        self.in_driver = in_driver
        self.cancelled = threading.Event()
        self.place: Place | None = None
        self.busy = BusyTimes()
        self._permits = permits
        self.threads = ThreadPool(concurrency) if concurrency > 1 else None

    @property
    def requests(self) -> int:
        """How many requests this process has made for the commit."""
        return self._permits.made

    def where(self) -> Place:
        """The place of this work: a worker, by the executor's name for it, or the driver."""
        return self.place or Place("the driver", platform.node(), os.getpid())

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply `function` with this worker's own concurrency; results come in any order. After an
        exception no further item is started. It is raised when those in progress have ended."""
        return self.threads.map(function, items) if self.threads else map(function, items)

    def for_each(self, function: Callable[[Item], object], items: Iterable[Item]) -> None:
        """`map`, without results."""
        for _ in self.map(function, items):
            pass

    def cancel(self) -> None:
        """Stop running work before its next file."""
        self.cancelled.set()

    def close(self) -> None:
        """End the threads and stop asking for permits; idempotent."""
        if self.threads is not None:
            self.threads.close()
        self._permits.close()


@dataclass(slots=True)
class _Busy:
    shards: int = 0
    since: float = 0.0


class BusyTimes:
    """Busy seconds by worker; shards that overlap share them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[str, _Busy] = {}

    def begin(self, worker: str, now: float) -> None:
        """A shard begins at `now`."""
        with self._lock:
            busy = self._busy.setdefault(worker, _Busy())
            if busy.shards == 0:
                busy.since = now
            busy.shards += 1

    def end(self, worker: str, now: float) -> float:
        """A shard ends; return the busy seconds of the worker that no other shard has counted."""
        with self._lock:
            busy = self._busy[worker]
            # The time since the last end counts for this shard alone, so overlapping shards never count
            # it twice.
            seconds, busy.since = now - busy.since, now
            busy.shards -= 1
            return seconds
