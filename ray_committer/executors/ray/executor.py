"""The `WorkExecutor` on Ray: remote tasks load, worker actors make directories and rename."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import ray

from ray_committer.directories import Directories
from ray_committer.executors.base import Item, OpenResources, Result, Work
from ray_committer.executors.ray.cluster import alive_nodes, calls, connect, disconnect
from ray_committer.executors.ray.directory_actor import start_directory_actor
from ray_committer.executors.ray.pool import WorkerPool
from ray_committer.executors.ray.remote import run_task_remotely
from ray_committer.options import CommitOptions

_TASKS_IN_FLIGHT_A_WORKER = 2


class RayExecutor:
    """Runs the work of one commit on a Ray cluster; shuts down only a connection that it made."""

    name = "ray"

    def __init__(
        self,
        open_resources: OpenResources,
        options: CommitOptions,
        *,
        commit_key: str,
    ) -> None:
        self._connected_here = connect(may_start=options.may_start_ray)
        self._open_resources = open_resources
        self._options = options
        self._resources_key = uuid.uuid4().hex
        self._pool: WorkerPool | None = None
        self.width = options.workers or max(2, 2 * alive_nodes())
        try:
            self._actor = start_directory_actor(commit_key)
            self.directories: Directories = self._actor
        except BaseException:
            self._disconnect()
            raise

    def run_tasks(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        with calls():
            shared = ray.put(work)
        task = run_task_remotely.options(num_cpus=self._options.worker_cpus, max_retries=3)
        waiting = iter(items)
        running: list[Any] = []
        try:
            while True:
                for item in waiting:
                    with calls():
                        ref = task.remote(self._resources_key, self._open_resources, shared, item)
                    running.append(ref)
                    if len(running) >= _TASKS_IN_FLIGHT_A_WORKER * self.width:
                        break
                if not running:
                    return
                with calls():
                    ready, running = ray.wait(running, num_returns=1)
                    result = ray.get(ready[0])
                yield result
        finally:
            if ray.is_initialized():
                for ref in running:
                    ray.cancel(ref)

    def run_on_workers(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._workers().run(work, items)

    def start_workers(self) -> None:
        self._workers()

    def admit_workers(self, check: Work[Item, Result], item: Item) -> None:
        self._workers().admit(check, item)

    def cancel(self) -> None:
        if self._pool is not None and ray.is_initialized():
            self._pool.cancel()

    def close(self) -> None:
        if ray.is_initialized():
            if self._pool is not None:
                self._pool.close()
            self._actor.close()
        self._pool = None
        self._disconnect()

    def _workers(self) -> WorkerPool:
        """The worker pool, started when it is first needed."""
        if self._pool is None:
            self._pool = WorkerPool(self._open_resources, self._options, self.width)
        return self._pool

    def _disconnect(self) -> None:
        if self._connected_here:
            disconnect()
            self._connected_here = False
