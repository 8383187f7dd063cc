"""The directory coordinator as one named actor: in a cluster, also the proof of being alone.

Its name stands for the destination and the job, so a second commit of the same job is refused. It needs
no CPU and dies with the driver that made it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from ray_committer.errors import CommitterBusyError
from ray_committer.executors.ray.cluster import NAMESPACE, calls
from ray_committer.executors.ray.remote import DirectoryActor

_TAKEOVER_SECONDS = 10.0


class ActorDirectories:
    """`Directories` behind an actor handle; pickles, so that workers can be given it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def collect(self, directories: Sequence[str]) -> None:
        self._call("collect", directories)

    def plan(self) -> int:
        return cast("int", self._call("plan"))

    def claim(self, limit: int) -> list[str]:
        return cast("list[str]", self._call("claim", limit))

    def finish(self, made: Sequence[str]) -> None:
        self._call("finish", made)

    def release(self) -> int:
        return cast("int", self._call("release"))

    def fingerprints(self) -> bytes:
        return cast("bytes", self._call("fingerprints"))

    def find(self, wanted: frozenset[bytes]) -> list[str]:
        return cast("list[str]", self._call("find", wanted))

    def close(self) -> None:
        """End the actor, which frees its name."""
        ray.kill(self._actor)

    def _call(self, method: str, *arguments: Any) -> Any:
        with calls():
            return ray.get(getattr(self._actor, method).remote(*arguments))


def start_directory_actor(commit_key: str) -> ActorDirectories:
    """Start the coordinator of one commit; `CommitterBusyError` if another commit of it runs."""
    name = f"commit-{commit_key}"
    deadline = time.monotonic() + _TAKEOVER_SECONDS
    while True:
        try:
            actor = DirectoryActor.options(name=name, namespace=NAMESPACE, num_cpus=0).remote()
            ray.get(actor.plan.remote())
            return ActorDirectories(actor)
        except ValueError as e:
            if _is_alive(name) or time.monotonic() > deadline:
                raise CommitterBusyError(
                    f"another commit of this job is at work in this Ray cluster (actor {name}); "
                    f"wait for it, then run the same command"
                ) from e
        time.sleep(0.2)


def _is_alive(name: str) -> bool:
    """Whether the actor answers; a name outlives its actor for a moment."""
    try:
        ray.get(ray.get_actor(name, namespace=NAMESPACE).__ray_ready__.remote(), timeout=5.0)
    except (ValueError, RayActorError):
        return False
    except GetTimeoutError:
        return True
    return True
