"""The coordinator as one named actor: in a cluster, also the proof of being alone.

Its name stands for the destination and the job, so a second commit of the same job is refused. It needs
no CPU and dies with the driver. If it is lost, Ray starts it again, empty.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from ray_committer.errors import CommitterBusyError
from ray_committer.executors.ray.cluster import NAMESPACE, calls, near_driver
from ray_committer.executors.ray.remote import CoordinatorActor

_TAKEOVER_SECONDS = 10.0


class ActorDirectories:
    """`Directories` behind an actor handle; pickles, so that workers can be given it.

    A copy knows the coordinator that it was made for and is refused by any later one.
    """

    def __init__(self, actor: Any, generation: str) -> None:
        self._actor = actor
        self._generation = generation

    def renew(self) -> None:
        with calls():
            self._generation = ray.get(self._actor.generation.remote())

    def collect(self, batch: int, directories: Sequence[str], files: bytes) -> None:
        self._call("collect", batch, directories, files)

    def plan(self) -> int:
        return cast("int", self._call("plan"))

    def claim(self, limit: int) -> list[str]:
        return cast("list[str]", self._call("claim", limit))

    def finish(self, made: Sequence[str]) -> None:
        self._call("finish", made)

    def release(self) -> int:
        return cast("int", self._call("release"))

    def repeated(self) -> frozenset[bytes]:
        return cast("frozenset[bytes]", self._call("repeated"))

    def written(self, files: bytes) -> frozenset[bytes]:
        return cast("frozenset[bytes]", self._call("written", files))

    def find(self, wanted: frozenset[bytes]) -> list[str]:
        return cast("list[str]", self._call("find", wanted))

    def share(self, number: int, shares: int) -> list[str]:
        return cast("list[str]", self._call("share", number, shares))

    def close(self) -> None:
        """End the actor, which frees its name."""
        ray.kill(self._actor)

    def _call(self, method: str, *arguments: Any) -> Any:
        with calls():
            return ray.get(self._actor.call.remote(self._generation, method, *arguments))


def start_coordinator(commit_key: str) -> ActorDirectories:
    """Start the coordinator of one commit; `CommitterBusyError` if another commit of it runs."""
    name = f"commit-{commit_key}"
    deadline = time.monotonic() + _TAKEOVER_SECONDS
    while True:
        try:
            actor = CoordinatorActor.options(
                name=name,
                namespace=NAMESPACE,
                num_cpus=0,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=near_driver(),
            ).remote()
            return ActorDirectories(actor, ray.get(actor.generation.remote()))
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
