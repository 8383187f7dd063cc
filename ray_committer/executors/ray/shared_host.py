"""The host of a pool that drivers of one cluster share: it knows the drivers and the workers, and ends
the pool.

Ray runs it as a detached actor, which does not end with a driver.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import ray

from ray_committer.executors.ray.cluster import NAMESPACE, Actor
from ray_committer.executors.ray.processes import CommitHost
from ray_committer.limits import waiting
from ray_committer.limits.permits import PATIENCE_SECONDS
from ray_committer.options import CommitOptions
from ray_committer.version import __version__

RENEW_SECONDS = 2.0
_LOOK_SECONDS = 0.5
_DRIVER_LENGTH = 32


def host_name(pool: str) -> str:
    """Return the name in Ray of the host of a pool."""
    return f"the host of the commit pool {pool}"


def worker_name(pool: str, number: int) -> str:
    """Return the name in Ray of a worker of a pool."""
    return f"worker {number} of the commit pool {pool}"


class SharedCommitHost(CommitHost):
    """A `CommitHost` that also knows its pool: `size` workers, by numbers that are never used twice. It
    takes a driver that is silent for three leases for dead, and releases what its commits hold. It ends
    itself and the workers after `idle_seconds` without a driver. If it was lost and runs again, the
    drivers report to it the workers that it has forgotten."""

    def __init__(self, pool: str, size: int, idle_seconds: float, options: CommitOptions) -> None:
        super().__init__()
        self.shown = host_name(pool)
        self._pool = pool
        self._workers = list(range(size))
        self._idle_seconds = idle_seconds
        self._requests_per_second = options.max_requests_per_second
        self._heard: dict[str, float] = {}
        self._gone: set[str] = set()
        self._is_ending = False
        self._watch = threading.Thread(target=self._look, name="shared-host", daemon=True)
        self._watch.start()

    def join(self, driver: str, version: str) -> tuple[str, list[int]] | None:
        """Let a driver join; return the version of this package here, which must be the driver's, and
        the workers. None if the pool is about to end."""
        with self._lock:
            if self._is_ending:
                return None
            if version == __version__:
                self._heard[driver] = time.monotonic()
            return __version__, list(self._workers)

    def renew(self, driver: str, workers: list[int]) -> list[int]:
        """Note that a driver is alive, and the workers that it knows; return the current workers."""
        with self._lock:
            # A driver that was taken for dead does not come back: its leases and coordinators are gone.
            if driver not in self._gone and not self._is_ending:
                self._heard[driver] = time.monotonic()
            # Before the answer: a host that started again would hand out the numbers of lost workers.
            self._learn(workers)
            return list(self._workers)

    def replace(self, workers: list[int], lost: int) -> list[int]:
        """Replace a lost worker's number by a new one; return the current workers. Idempotent."""
        with self._lock:
            self._learn(workers)
            if lost in self._workers:
                # A new number, never a used one: the old name's actor may live behind a partition.
                self._workers[self._workers.index(lost)] = max(self._workers) + 1
            return list(self._workers)

    def leave(self, driver: str) -> None:
        """Forget a driver, and what its commits hold here and on the workers; idempotent."""
        with self._lock:
            self._gone.add(driver)
            self._heard.pop(driver, None)
            for kept in (self._limits, self._directories, self._counted):
                for key in [key for key in kept if key.startswith(driver)]:
                    del kept[key]
            workers = list(self._workers)
        # Outside the lock: a call of Ray can take long, and meanwhile drivers renew.
        for number in workers:
            self._call(worker_name(self._pool, number), lambda worker: worker.forget.remote(driver))

    def limit(
        self, key: str, name: str, per_second: float | None, method: str, *arguments: object
    ) -> object:
        """Like `CommitHost.limit`, but with the rate of the pool."""
        del per_second
        return super().limit(key, name, self._requests_per_second, method, *arguments)

    def _has_ended(self, key: str) -> bool:
        return super()._has_ended(key) or key[:_DRIVER_LENGTH] in self._gone

    def _learn(self, workers: list[int]) -> None:
        """Take over the workers' numbers: a host that was started again knows only the first ones."""
        if max(workers, default=-1) > max(self._workers):
            self._workers = list(workers)

    def _look(self) -> None:
        # As if a driver was heard at the start: the first one needs time to join.
        heard = time.monotonic()
        while not self._is_ending:
            waiting.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            with self._lock:
                silent = [driver for driver, at in self._heard.items() if now - at > PATIENCE_SECONDS]
            for driver in silent:
                # After three leases, so whatever permits the driver itself had have expired.
                self.leave(driver)
            with self._lock:
                if self._heard:
                    heard = now
                # Decided under the lock that `join` takes: no driver joins a pool that has begun to end.
                self._is_ending = not self._heard and now - heard > self._idle_seconds
        for number in self._workers:
            self._call(worker_name(self._pool, number), ray.kill)
        # Itself last: a pool whose host is gone would leave detached workers that nobody ends.
        self._call(host_name(self._pool), ray.kill)

    def _call(self, name: str, call: Callable[[Actor], object]) -> None:
        with suppress(ValueError):  # there is no such actor, or no longer
            call(ray.get_actor(name, namespace=NAMESPACE))
