"""The limit of requests as an actor: all processes of a commit ask the same one.

Lost, it starts again with the limit that was asked for, and learns anew what the store bears.
"""

from __future__ import annotations

from typing import Any, cast

import ray
from ray.exceptions import GetTimeoutError

from ray_committer.errors import RayNotAvailableError
from ray_committer.executors.ray.cluster import calls, near_driver
from ray_committer.executors.ray.remote import LimitActor
from ray_committer.options import CommitOptions
from ray_committer.ratelimit import Grant, LimitStatistics


class ActorLimit:
    """`LimitAuthority` behind an actor handle; pickles. An answer that takes a whole lease is none."""

    def __init__(self, actor: Any, lease_seconds: float) -> None:
        self._actor = actor
        self.lease_seconds = lease_seconds

    def grant(self, holder: str, used: int) -> Grant:
        return cast("Grant", self._call("grant", holder, used))

    def throttled(self, holder: str, used: int, retry_after_seconds: float | None) -> None:
        self._call("throttled", holder, used, retry_after_seconds)

    def statistics(self) -> LimitStatistics:
        return cast("LimitStatistics", self._call("statistics"))

    def expel(self, holder: str) -> None:
        """Give `holder` no more permits; does not wait for the answer."""
        with calls():
            self._actor.expel.remote(holder)

    def wait_until_ready(self, seconds: float) -> None:
        """Wait for the actor's start, which no lease should have to cover."""
        try:
            ray.get(self._actor.statistics.remote(), timeout=seconds)
        except GetTimeoutError as e:
            raise RayNotAvailableError(
                f"the actor that limits requests did not start within {seconds:g} s; is the head of the "
                f"Ray cluster overloaded?"
            ) from e

    def close(self) -> None:
        """End the actor: no lease is given any more."""
        ray.kill(self._actor)

    def _call(self, method: str, *arguments: Any) -> Any:
        with calls():
            return ray.get(getattr(self._actor, method).remote(*arguments), timeout=self.lease_seconds)


def start_limit(options: CommitOptions) -> ActorLimit:
    """Start the limit of one commit; does not wait for it."""
    actor = LimitActor.options(num_cpus=0, max_restarts=-1, scheduling_strategy=near_driver()).remote(
        options.max_requests_per_second, lease_seconds=options.lease_seconds
    )
    return ActorLimit(actor, options.lease_seconds)
