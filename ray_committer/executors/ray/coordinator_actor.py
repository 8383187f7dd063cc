"""The coordinator as an actor of one commit.

It needs no CPU and dies with the driver. If it is lost, Ray starts it again, empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ray

from ray_committer.executors.ray.cluster import calls, near_driver
from ray_committer.executors.ray.remote import CoordinatorActor


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

    def forget(self) -> None:
        self._call("forget")

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
        """End the actor."""
        ray.kill(self._actor)

    def _call(self, method: str, *arguments: Any) -> Any:
        with calls():
            return ray.get(self._actor.call.remote(self._generation, method, *arguments))


def start_coordinator() -> ActorDirectories:
    """Start the coordinator of one commit."""
    actor = CoordinatorActor.options(
        num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=near_driver()
    ).remote()
    return ActorDirectories(actor, ray.get(actor.generation.remote()))
