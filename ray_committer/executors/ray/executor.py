"""The `WorkExecutor` on Ray: worker actors do all work, from loading to clean-up."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

import ray

from ray_committer.errors import RayNotAvailableError
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import (
    DRIVER_THREADS,
    Item,
    OpenResources,
    Readiness,
    Result,
    ResultRef,
    Work,
)
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.ray import cluster
from ray_committer.executors.ray.cluster import Connection, calls, dashboard_url, worker_nodes
from ray_committer.executors.ray.host import DriverLimit, HostedDirectories, HostedLimit
from ray_committer.executors.ray.pool import WorkerPool
from ray_committer.executors.ray.pool_job import PoolJob
from ray_committer.executors.ray.shared_pool import SharedWorkerPool
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.options import CommitOptions
from ray_committer.version import __version__

_log = logging.getLogger(__name__)

ANSWER_SECONDS = 0.5
"""How long to wait for the answer of workers that are ready."""


class RayPool:
    """Commit workers that exist before a commit, so that it does not wait for their start: this
    driver's, or of all the cluster's drivers that join the pool called `shared`. `reason` is why a
    commit runs on them, `about` the text that Ray shows for them."""

    def __init__(
        self,
        options: CommitOptions,
        shared: str | None = None,
        *,
        reason: str = "on the given pool",
        about: str = "a commit pool",
    ) -> None:
        self.reason = reason
        self._options = options
        self._closed = False
        self._connection = Connection()
        self.pool: WorkerPool | SharedWorkerPool
        try:
            if shared is None:
                self.pool = WorkerPool(options, pool_size(options), about)
            else:
                self.pool = SharedWorkerPool(options, pool_size(options), shared)
        except BaseException:
            self._connection.close()
            raise

    def require_open(self) -> None:
        if self._closed:  # nothing would end its workers
            raise RayNotAvailableError(
                "the given commit_pool is closed, and its workers have ended",
                "commit inside its `with` block, or use another executor",
            )

    def readiness(self) -> Readiness:
        try:
            asked = [worker.actor.check_version.remote(__version__) for worker in self.pool.workers]
            answered, starting = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_SECONDS)
            # Raises for a worker that died or has another version: such a pool counts as lost.
            ray.get(answered)
            if starting:
                return Readiness.STARTING
            grown = pool_size(self._options) > self.pool.size
        except Exception:  # noqa: BLE001 - whatever it is, no commit should rely on them
            _log.info("workers that were started ahead do not answer", exc_info=True)
            return Readiness.LOST
        return Readiness.TOO_FEW if grown else Readiness.READY

    def close(self) -> None:
        self._closed = True
        if ray.is_initialized():
            self.pool.close()
        self._connection.close()


class RayExecutor:
    """Runs the work of one commit on a Ray cluster; shuts down only a connection that it made. Until
    there is work, no process is started and the driver's own limit covers its requests."""

    name = "ray"
    starts_workers = True

    def __init__(
        self,
        open_resources: OpenResources,
        options: CommitOptions,
        *,
        pool: RayPool | None = None,
        about: str = "",
        store: str = "",
    ) -> None:
        if pool is not None:
            pool.require_open()
        self._connection = Connection()
        self._open_resources = open_resources
        self._options = options
        self._about = about
        self._store = store
        self._own_pool: WorkerPool | None = None
        self._shared_pool = pool.pool if pool else None
        self._key = self._shared_pool.new_key() if self._shared_pool else uuid.uuid4().hex
        self._lock = threading.Lock()
        self._job: PoolJob | None = None
        self._directories: DirectoryCoordinator | None = None
        self._sink: EventSink = ignore
        self.width = self._shared_pool.size if self._shared_pool else pool_size(options)
        self.workers = self.width
        self.threads = options.worker_threads
        # The driver asks the store before any worker exists: its own limit is first, and shared later.
        self._limit = DriverLimit(options)
        self.permits = Permits(self._limit, f"driver-{self._key}")
        self.driver = ThreadPool(DRIVER_THREADS)

    @property
    def dashboard(self) -> str:
        return dashboard_url() if ray.is_initialized() else ""

    @property
    def directories(self) -> DirectoryCoordinator:
        if self._directories is None:
            host = self._workers().pool.host
            self._directories = cast("DirectoryCoordinator", HostedDirectories(host.actor, self._key))
        return self._directories

    def listen(self, sink: EventSink) -> None:
        self._sink = sink

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._workers().run(work, items)

    def run_with_ref(
        self, work: Work[tuple[Result, bytes]], items: Iterable[Item]
    ) -> Iterator[tuple[Result, ResultRef]]:
        return self._workers().run_with_ref(work, items)

    def start_workers(self, *, first_only: bool = False) -> None:
        with calls():
            self._workers().start(first_only=first_only)

    def admit_workers(self, check: Work[Result], item: Item) -> None:
        self._workers().admit(check, item)

    def limit_statistics(self) -> LimitStatistics:
        totals = self._limit.statistics()
        made = self.permits.made + (self._job.requests if self._job is not None else 0)
        # The limit was not told of the last ones, and work that failed has no result that tells.
        return replace(totals, requests=max(totals.requests, made))

    def cancel(self) -> None:
        if self._job is not None and ray.is_initialized():
            self._job.cancel()

    def close(self) -> None:
        self.driver.close()
        # The thread that renews permits calls the host, which ends with the pool.
        self.permits.close()
        if ray.is_initialized():
            if self._own_pool is not None:
                self._own_pool.close()
            elif self._job is not None:
                self._job.close()
        self._job = self._own_pool = None
        self._connection.close()

    def _workers(self) -> PoolJob:
        """Return this commit's part of the pool; start a pool if none was given."""
        with self._lock:
            if self._job is None:
                with calls():
                    self._job = self._begin()
            return self._job

    def _begin(self) -> PoolJob:
        pool = self._shared_pool
        if pool is None:
            pool = self._own_pool = WorkerPool(self._options, self.width, self._about)
        # A lease counts from the request for it: a host that starts for longer would look lost.
        pool.host.wait_until_ready(cluster.WORKER_START_SECONDS)
        options, name = self._options, self._key
        if isinstance(pool, SharedWorkerPool):
            # By the store's name and not the commit's: a store throttles all of its callers together.
            options, name = pool.options, self._store
        limit = HostedLimit(pool.host.actor, self._key, options, name)
        self._limit.share(limit)
        return PoolJob(pool, self._key, self._open_resources, limit, self._sink, self._about)


def has_room(options: CommitOptions) -> bool:
    """Return whether all workers could start now, beside the other work on the cluster."""
    with calls():
        free: float = ray.available_resources().get("CPU", 0.0)
        return free >= pool_size(options) * options.worker_cpus


def pool_size(options: CommitOptions) -> int:
    """Return the number of workers: two per node unless the options specify it."""
    # Two per node: one still makes requests while the other computes (parses manifests).
    return options.workers or max(2, 2 * len(worker_nodes()))
