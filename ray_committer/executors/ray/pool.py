"""Long-lived worker actors, spread over the nodes, which can serve many commits of one driver.

A free worker gets the next item, two at most, so nothing is assigned in advance. Small items handed out
like that were measured to beat static shares and speculation when one worker is slow. A lost worker's
items go to the front of the queue, and a new worker takes its place while the others continue.
"""

from __future__ import annotations

import itertools
import logging
import threading
import uuid
from dataclasses import dataclass

import ray

from ray_committer.executors.ray.cluster import Actor, near, worker_nodes
from ray_committer.executors.ray.host import Host
from ray_committer.executors.ray.remote import CommitWorkerActor
from ray_committer.options import CommitOptions

_log = logging.getLogger(__name__)

CALLS_AT_ONCE = 32  # by all commits that share a worker; a waiting thread costs nothing


@dataclass(frozen=True, slots=True, eq=False)
class PoolWorker:
    """A worker actor of a pool; `number` is never used twice."""

    number: int
    actor: Actor


class WorkerPool:
    """A host and `size` worker actors that live as long as the pool; used by several commits at once.
    `about` is the text that Ray shows beside a worker's number."""

    def __init__(self, options: CommitOptions, size: int, about: str = "") -> None:
        self.options = options
        self._about = about
        self.size = size
        self._lock = threading.RLock()  # again by a handler of Ctrl-C
        self._numbers = itertools.count()
        self.host = Host()
        self._workers = self._spawn(size)

    def new_key(self) -> str:
        return uuid.uuid4().hex

    @property
    def workers(self) -> list[PoolWorker]:
        with self._lock:
            return list(self._workers)

    def replace(self, lost: PoolWorker, cause: Exception) -> None:
        """Replace a lost worker by a new one, and end the lost one if it still runs; idempotent."""
        with self._lock:
            # Another commit on this pool has met the same loss and was first.
            if lost not in self._workers:
                return
            _log.warning("a commit worker was lost and is replaced: %s", cause)
            # It may only be cut off, and would go on with its items beside its replacement.
            ray.kill(lost.actor)
            self._workers[self._workers.index(lost)] = self._spawn(1)[0]

    def close(self) -> None:
        for worker in self.workers:
            ray.kill(worker.actor)
        self.host.close()

    def _spawn(self, number: int) -> list[PoolWorker]:
        """Start workers on the nodes in turn; Ray's own spreading puts small workers together."""
        nodes = worker_nodes()
        workers = []
        for index in itertools.islice(self._numbers, number):
            # Soft affinity: a node that has gone since the listing must not keep a worker from starting.
            where = near(nodes[index % len(nodes)]) if nodes else "SPREAD"
            actor = CommitWorkerActor.options(
                num_cpus=self.options.worker_cpus,
                scheduling_strategy=where,
                max_concurrency=CALLS_AT_ONCE,
            ).remote(f"worker {index} of {self._about}")
            workers.append(PoolWorker(index, actor))
        return workers
