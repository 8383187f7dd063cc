"""A pool of worker actors: each keeps two items in progress, a lost one's items go to the front.

Small items pulled by whoever is free were measured to beat static shares and speculation when one worker
is slow, so nothing is assigned in advance.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    RayActorError,
)

from ray_committer.errors import CommitStateUnknownError, RayNotAvailableError
from ray_committer.executors.base import OpenResources
from ray_committer.executors.ray.cluster import calls
from ray_committer.executors.ray.remote import CommitWorkerActor
from ray_committer.options import CommitOptions
from ray_committer.version import __version__

_log = logging.getLogger(__name__)

DEPTH = 2
MAX_LOSSES = 20

Call = tuple[Callable[[Any, Any], Any], Any]


class WorkerPool:
    """`size` worker actors, spread over the nodes, that live as long as the pool."""

    def __init__(self, open_resources: OpenResources, options: CommitOptions, size: int) -> None:
        self._open_resources = open_resources
        self._options = options
        self._losses = 0
        self._admission: list[Call] = []
        self._workers = [self._spawn() for _ in range(size)]
        try:
            self._wait_for(self._workers)
        except BaseException:
            self.close()
            raise

    def admit(self, check: Callable[[Any, Any], Any], item: Any) -> None:
        """Run a check on every worker, and on each that replaces one later."""
        self._admission.append((check, item))
        for worker in list(self._workers):
            with calls():
                try:
                    ray.get(worker.run.remote(check, item))
                except (ActorDiedError, ActorUnavailableError) as e:
                    self._replace(worker, e)

    def run(self, work: Callable[[Any, Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Run work over items; at least once each, every result yielded once."""
        with calls():
            shared_work = ray.put(work)
        waiting = iter(items)
        again: deque[Any] = deque()
        running: dict[Any, tuple[Any, Any]] = {}
        try:
            while True:
                with calls():
                    self._feed(shared_work, waiting, again, running)
                    if not running:
                        return
                    ready, _ = ray.wait(list(running), num_returns=1)
                    worker, item = running.pop(ready[0])
                    try:
                        result = ray.get(ready[0])
                    except (ActorDiedError, ActorUnavailableError) as e:
                        again.appendleft(item)
                        self._replace(worker, e)
                        continue
                yield result
        finally:
            if running and ray.is_initialized():
                ray.wait(list(running), num_returns=len(running))

    def cancel(self) -> None:
        """Ask every worker to stop its work at the next step."""
        for worker in self._workers:
            worker.cancel.remote()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            ray.kill(worker)

    def _feed(
        self,
        work: Any,
        waiting: Iterator[Any],
        again: deque[Any],
        running: dict[Any, tuple[Any, Any]],
    ) -> None:
        for _ in range(DEPTH):
            for worker in self._workers:
                if sum(holder is worker for holder, _ in running.values()) >= DEPTH:
                    continue
                try:
                    item = again.popleft() if again else next(waiting)
                except StopIteration:
                    return
                running[worker.run.remote(work, item)] = (worker, item)

    def _spawn(self) -> Any:
        return CommitWorkerActor.options(
            num_cpus=self._options.worker_cpus,
            scheduling_strategy="SPREAD",
            max_concurrency=DEPTH + 2,
        ).remote(self._open_resources)

    def _wait_for(self, workers: list[Any]) -> None:
        """Wait until the workers run this version of the package; a clear error if they do not."""
        seconds = self._options.worker_start_seconds
        try:
            found = ray.get([worker.identify.remote() for worker in workers], timeout=seconds)
        except GetTimeoutError as e:
            raise RayNotAvailableError(
                f"not all of {len(workers)} commit workers started within {seconds:g} s: each asks Ray "
                f"for {self._options.worker_cpus:g} CPU, {ray.available_resources()} is available; "
                f"free some, or lower worker_cpus or workers"
            ) from e
        except RayActorError as e:
            raise RayNotAvailableError(
                f"a commit worker could not start; is ray-committer {__version__} "
                f"installed on all nodes? {e}"
            ) from e
        if other := {version for version, _ in found} - {__version__}:
            raise RayNotAvailableError(
                f"the nodes run ray-committer {', '.join(sorted(other))}, this driver runs "
                f"{__version__}; install the same everywhere"
            )

    def _replace(self, worker: Any, cause: Exception) -> None:
        """Put a new worker in the place of a lost one; its other items come back as they fail."""
        if worker not in self._workers:
            return
        self._losses += 1
        if self._losses > MAX_LOSSES:
            raise CommitStateUnknownError(
                f"{self._losses} commit workers were lost, the last with: {cause}; mend the cluster and "
                f"run the same command"
            ) from cause
        _log.warning("a commit worker was lost and is replaced: %s", cause)
        new = self._workers[self._workers.index(worker)] = self._spawn()
        self._wait_for([new])
        for check, item in self._admission:
            ray.get(new.run.remote(check, item))
