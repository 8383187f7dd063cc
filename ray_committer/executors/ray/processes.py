"""What runs inside Ray's processes: plain functions and classes, which `remote` wraps.

They are not decorated here: Ray pickles a decorated function by value, and then its module's globals are
private copies and locks in them cannot be pickled.
"""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable
from typing import Any

import ray

from ray_committer.directories import DirectoryCoordinator
from ray_committer.errors import CoordinatorLostError, RayNotAvailableError
from ray_committer.executors.base import OpenResources, Place, Work
from ray_committer.executors.ray.metrics import WorkerMetrics
from ray_committer.permits import Permits
from ray_committer.ratelimit import LimitAuthority
from ray_committer.version import __version__


def answer(ask: Callable[[], Any]) -> tuple[str, Any]:
    """Say which version of this package a node has, and what `ask` finds there."""
    return __version__, ask()


class CommitWorker:
    """A long-lived worker of one or many commits. Run by Ray as a threaded actor.

    The resources of a commit (`key`) stay open between its calls.
    """

    def __init__(self) -> None:
        self._resources: dict[str, Any] = {}
        self._metrics = WorkerMetrics()

    def open(
        self,
        key: str,
        open_resources: OpenResources,
        authority: LimitAuthority,
        holder: str,
        name: str,
        version: str,
    ) -> Place:
        """Open the resources of a commit, whose worker `name` this is; idempotent.

        `RayNotAvailableError` if the driver runs another `version` of this package.
        """
        _check_version(version)
        if key not in self._resources:
            resources = _open(open_resources, authority, holder)
            resources.place = Place(name, ray.util.get_node_ip_address(), os.getpid())
            self._resources[key] = resources
        place: Place = self._resources[key].place
        return place

    def run(self, key: str, work: Work[Any], item: Any, *parked: Any) -> tuple[float, Any]:
        """Run work on one item; the seconds that it took, and its result."""
        started = time.monotonic()
        result = work(self._resources[key], item, *parked)
        self._metrics.note(result)
        return time.monotonic() - started, result

    def park(self, key: str, work: Work[Any], item: Any) -> tuple[tuple[float, Any], Any]:
        """`run` for work with two results, of which the second stays on this node."""
        seconds, (result, parked) = self.run(key, work, item)
        return (seconds, result), parked

    def cancel(self, key: str) -> None:
        """Let a commit's running work stop at its next step."""
        if key in self._resources:
            self._resources[key].cancel()

    def close(self, key: str) -> None:
        """Give back a commit's resources; idempotent."""
        resources = self._resources.pop(key, None)
        if resources is not None:
            resources.close()


class Coordinator:
    """A `DirectoryCoordinator` that says so when it is not the one that the caller knows.

    Ray starts a lost actor again, empty; a caller that went on with it would miss directories.
    """

    def __init__(self) -> None:
        self._directories = DirectoryCoordinator()
        self._generation = uuid.uuid4().hex

    def generation(self) -> str:
        """What tells this coordinator from the next one of its name."""
        return self._generation

    def call(self, generation: str, method: str, *arguments: Any) -> Any:
        """Call a method of `Directories`; `CoordinatorLostError` if this is not that `generation`."""
        if generation != self._generation:
            raise CoordinatorLostError(
                "the coordinating actor of this commit was lost and runs again, empty"
            )
        return getattr(self._directories, method)(*arguments)


def _check_version(version: str) -> None:
    if version != __version__:
        raise RayNotAvailableError(
            f"node {platform.node()} runs ray-committer {__version__}, the driver runs {version}; "
            f"install the same everywhere"
        )


def _open(open_resources: OpenResources, authority: LimitAuthority, holder: str) -> Any:
    resources = open_resources()
    resources.guard(Permits(authority, holder, patience_seconds=authority.lease_seconds))
    return resources
