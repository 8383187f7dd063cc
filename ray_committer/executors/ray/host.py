"""The host of a worker pool: one actor that keeps, for each commit, its limit of requests and its
coordinator.

It needs no CPU and runs on the driver's node, so that it is not lost with another node. It starts with
the workers, so a commit on a warm pool starts no process for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import ray
from ray.exceptions import GetTimeoutError

from ray_committer.errors import RayNotAvailableError
from ray_committer.executors.ray.cluster import Actor, Ref, calls, on_drivers_node
from ray_committer.executors.ray.remote import CommitHostActor
from ray_committer.limits.ratelimit import LEASE_SECONDS, Grant, LimitStatistics, RateLimit
from ray_committer.options import CommitOptions

HOST = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "enable_task_events": False}
"""The options of a host's actor."""


class Host:
    """The host's actor, which Ray starts again, empty, if it is lost."""

    def __init__(self, actor: Actor = None) -> None:
        options = {**HOST, "max_concurrency": 16, "scheduling_strategy": on_drivers_node()}
        self.actor = actor or CommitHostActor.options(**options).remote()

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until the actor has started, because no lease should have to cover that time."""
        try:
            ray.get(self.actor.life.remote(), timeout=seconds)
        except GetTimeoutError as e:
            raise RayNotAvailableError(
                f"the actor that limits requests did not start within {seconds:g} s",
                "check whether the driver's node is overloaded",
            ) from e

    def end(self, key: str) -> None:
        """Forget a commit, and give its processes no more leases; does not wait. The call is not
        repeated: a lost host has forgotten everything."""
        self.actor.end.options(max_task_retries=0).remote(key)

    def close(self) -> None:
        ray.kill(self.actor)


class HostedLimit:
    """`LimitAuthority` of the commit `key`: its own limit, or one with a `name` that several share;
    pickles. An answer that takes a whole lease counts as no answer."""

    def __init__(self, actor: Actor, key: str, options: CommitOptions, name: str | None = None) -> None:
        self._actor = actor
        self._key = key
        self._name = name or key
        self._requests_per_second = options.max_requests_per_second

    def grant(self, holder: str, used: int) -> Grant:
        return cast("Grant", self._call("grant", holder, used))

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
        return bool(self._call("throttled", holder, used, retry_after_seconds))

    def statistics(self) -> LimitStatistics:
        return cast("LimitStatistics", self._call("statistics"))

    def fence(self, holder: str) -> None:
        """Fence `holder`: give it no more permits. Does not wait for the answer."""
        with calls():
            self._ask("fence", holder)

    def _call(self, method: str, *arguments: object) -> object:
        with calls():
            return ray.get(self._ask(method, *arguments), timeout=LEASE_SECONDS)

    def _ask(self, method: str, *arguments: object) -> Ref:
        per_second = self._requests_per_second
        return self._actor.limit.remote(self._key, self._name, per_second, method, *arguments)


class DriverLimit:
    """`LimitAuthority` of a commit for its driver: a limit of its own until workers share one."""

    def __init__(self, options: CommitOptions) -> None:
        self._own = RateLimit(options.max_requests_per_second)
        self._shared: HostedLimit | None = None

    def share(self, limit: HostedLimit) -> None:
        self._shared = limit

    def grant(self, holder: str, used: int) -> Grant:
        return (self._shared or self._own).grant(holder, used)

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> bool:
        return (self._shared or self._own).throttled(holder, used, retry_after_seconds)

    def statistics(self) -> LimitStatistics:
        driver = self._own.statistics()
        if self._shared is None:
            return driver
        shared = self._shared.statistics()
        lowest = [statistics.lowest for statistics in (driver, shared) if statistics.lowest is not None]
        return replace(
            shared,
            requests=driver.requests + shared.requests,
            throttled=driver.throttled + shared.throttled,
            lowest=min(lowest, default=None),
            spans=driver.spans + shared.spans,
        )


class HostedDirectories:
    """The `DirectoryCoordinator` of the commit `key`, on its host; pickles, so that workers get a copy.
    A copy knows the `life` of the host that it was made for, and any later host refuses it."""

    def __init__(self, actor: Actor, key: str) -> None:
        self._actor = actor
        self._key = key
        self._life = ""
        self.renew()

    def renew(self) -> None:
        with calls():
            self._life = ray.get(self._actor.life.remote())

    def __getattr__(self, method: str) -> Callable[..., object]:  # type: ignore[explicit-any]
        if method.startswith("_"):  # pickle looks for some, before this has its attributes
            raise AttributeError(method)
        return partial(self._call, method)

    def _call(self, method: str, *arguments: object) -> object:
        with calls():
            return ray.get(self._actor.directories.remote(self._key, self._life, method, *arguments))
