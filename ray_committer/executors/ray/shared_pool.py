"""A driver's part in a pool of commit workers that several drivers of one Ray cluster share.

The pool is found by its name. Its host belongs to no driver and knows the workers. All of them are
detached actors, so nothing ends with a driver that ends or is lost.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from contextlib import suppress

import ray
from ray.exceptions import RayError

from ray_committer.errors import RayLostError, RayNotAvailableError
from ray_committer.executors.ray import cluster
from ray_committer.executors.ray.cluster import NAMESPACE, calls, near, worker_nodes
from ray_committer.executors.ray.host import HOST, Host
from ray_committer.executors.ray.pool import CALLS_AT_ONCE, PoolWorker
from ray_committer.executors.ray.remote import CommitWorkerActor, SharedCommitHostActor
from ray_committer.executors.ray.shared_host import RENEW_SECONDS, host_name, worker_name
from ray_committer.limits import waiting
from ray_committer.options import CommitOptions
from ray_committer.version import __version__

_log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
"""How long a pool waits for a driver before it ends."""
_CALLS_AT_ONCE = 128
_TRY_AGAIN_SECONDS = 0.5


class SharedWorkerPool:
    """The host and the workers of the pool called `name`, started by the first driver that joins."""

    def __init__(self, options: CommitOptions, size: int, name: str) -> None:
        self.options = options
        self._name = name
        self._driver = uuid.uuid4().hex
        self._lock = threading.RLock()  # again by a handler of Ctrl-C
        self._left = threading.Event()
        self._workers: list[PoolWorker] = []
        self.host, numbers = self._join(size)
        self.size = len(numbers)
        self._meet(numbers, [])
        self._renewer = threading.Thread(target=self._renew, name="ray-committer-pool", daemon=True)
        self._renewer.start()

    def new_key(self) -> str:
        """Return a key for a commit on the host and the workers; it begins with the driver's id."""
        return self._driver + uuid.uuid4().hex

    @property
    def workers(self) -> list[PoolWorker]:
        """The current workers, as this driver knows them."""
        with self._lock:
            return list(self._workers)

    def replace(self, lost: PoolWorker, cause: Exception) -> None:
        """Replace a lost worker by a new one, unless another driver has done so; idempotent."""
        known = [worker.number for worker in self.workers]
        if lost.number not in known:
            return
        _log.warning("a commit worker was lost and is replaced: %s", cause)
        # Before the host gives out a new number: a cut-off worker would go on beside its replacement.
        ray.kill(lost.actor)
        with calls():
            self._meet(ray.get(self.host.actor.replace.remote(known, lost.number)), known)

    def close(self) -> None:
        """Leave the pool, which continues for others."""
        # The renewer ends first: a later renewal would be from a driver that the host has forgotten.
        self._left.set()
        self._renewer.join()
        with suppress(RayError):  # the host will notice that this driver is silent
            ray.get(self.host.actor.leave.remote(self._driver), timeout=RENEW_SECONDS)

    def _join(self, size: int) -> tuple[Host, list[int]]:
        deadline = time.monotonic() + cluster.WORKER_START_SECONDS
        while time.monotonic() < deadline:
            # Each round asks by name again: a host that has just ended must be made anew.
            actor = SharedCommitHostActor.options(
                **HOST,
                name=host_name(self._name),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_concurrency=_CALLS_AT_ONCE,
                scheduling_strategy=near(ray.get_runtime_context().get_node_id()),
            ).remote(self._name, size, IDLE_SECONDS, self.options)
            try:
                with calls():
                    joined = ray.get(
                        actor.join.remote(self._driver, __version__),
                        timeout=cluster.WORKER_START_SECONDS,
                    )
            except RayLostError:  # the host has just ended
                joined = None
            if joined is not None:
                version, numbers = joined
                if version != __version__:
                    raise RayNotAvailableError(
                        f"the commit pool {self._name} was started by ray-committer {version}, this "
                        f"driver runs {__version__}",
                        "use another name for the pool",
                    )
                return Host(actor), numbers
            waiting.sleep(_TRY_AGAIN_SECONDS)
        raise RayNotAvailableError(
            f"the commit pool {self._name} could not be joined within "
            f"{cluster.WORKER_START_SECONDS:g} s",
            "check whether the cluster is overloaded",
        )

    def _meet(self, numbers: list[int], before: list[int]) -> None:
        """Make these the known workers, and start those that are not there yet. Not if others than
        `before` are known: an older answer would start a worker that was replaced."""
        with self._lock:
            known = {worker.number: worker for worker in self._workers}
            if list(known) == before:
                self._workers = [known.get(number) or self._worker(number) for number in numbers]

    def _worker(self, number: int) -> PoolWorker:
        nodes = worker_nodes()
        name = worker_name(self._name, number)
        actor = CommitWorkerActor.options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=self.options.worker_cpus,
            scheduling_strategy=near(nodes[number % len(nodes)]) if nodes else "SPREAD",
            max_concurrency=CALLS_AT_ONCE,
        ).remote(name)
        return PoolWorker(number, actor)

    def _renew(self) -> None:
        while not self._left.wait(RENEW_SECONDS) and ray.is_initialized():
            known = [worker.number for worker in self.workers]
            try:
                current = ray.get(
                    self.host.actor.renew.remote(self._driver, known), timeout=RENEW_SECONDS
                )
                self._meet(current, known)
            except RayError:  # the host is lost, and starts again
                _log.debug("the host of the commit pool %s does not answer", self._name, exc_info=True)
