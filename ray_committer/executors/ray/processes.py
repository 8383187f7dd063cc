"""The functions and classes that run inside Ray's processes; `remote` wraps them.

They are not decorated here: Ray pickles a decorated function by value. Then its module's globals are
private copies, and locks in them cannot be pickled.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import ray
from ray.util.metrics import Counter, Histogram

from ray_committer.errors import CoordinatorLostError, LeaseLostError, RayNotAvailableError
from ray_committer.executors.base import OpenResources, Place, Resources, Result, Work
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import LimitAuthority, LimitStatistics, RateLimit
from ray_committer.protocol.statistic_names import COMMIT_FILE_RENAME
from ray_committer.version import __version__

_log = logging.getLogger(__name__)


def stage_of(work: Work[object]) -> str:
    """Return the name of work in Ray's list of tasks and in the logs, such as ``rename_shard``."""
    name: str = getattr(getattr(work, "func", work), "__name__", "work")
    return name.strip("_")


def answer(ask: Callable[[], object]) -> tuple[str, object]:
    """Return the version of this package on a node, and what `ask` finds there."""
    return __version__, ask()


class _Shown:
    """`__repr__` by the attribute `shown`.

    It is not a method: if a class cannot be imported on a node, Ray replaces each method by one that
    raises that error, and a `__repr__` like that ended the process before the error was reported.
    """

    def __get__(self, actor: CommitWorker | CommitHost | None, _: type) -> Callable[[], str]:
        return cast("Callable[[], str]", self) if actor is None else lambda: actor.shown


class CommitWorker:
    """A long-lived worker of one or many commits, as a threaded actor, which Ray shows by its `label`.
    The resources of a commit (`key`) stay open between its calls."""

    __repr__ = _Shown()

    def __init__(self, label: str) -> None:
        self.shown = label
        self._resources: dict[str, Resources] = {}
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
        """Open the resources of a commit, in which this is the worker `name`; idempotent.
        `RayNotAvailableError` if the driver runs another `version` of this package."""
        self.check_version(version)
        if key not in self._resources:
            resources = open_resources(Permits(authority, holder))
            resources.place = Place(name, ray.util.get_node_ip_address(), os.getpid())
            self._resources[key] = resources
        return cast("Place", self._resources[key].place)

    def check_version(self, version: str) -> None:
        if version != __version__:
            raise RayNotAvailableError(
                f"node {platform.node()} runs ray-committer {__version__}, the driver runs {version}",
                "install the same version everywhere",
            )

    def run(
        self, key: str, work: Work[Result], item: object, *results: object
    ) -> tuple[float, int, Result]:
        """Run work on one item; return the seconds that it took, the number of requests that this worker
        has made for the commit so far, and the result."""
        started, resources = time.monotonic(), self._resources[key]
        result = work(resources, item, *results)
        self._metrics.note(result)
        seconds = time.monotonic() - started
        # Cut, since an item can name hundreds of manifests.
        _log.info("%s: %.200s in %.3f s", stage_of(work), item, seconds)
        return seconds, resources.requests, result

    def run_with_ref(
        self, key: str, work: Work[tuple[Result, bytes]], item: object
    ) -> tuple[tuple[float, int, Result], bytes]:
        """`run` for work with two results; the second one stays on this node."""
        seconds, requests, (result, kept) = self.run(key, work, item)
        return (seconds, requests, result), kept

    def cancel(self, key: str) -> None:
        if key in self._resources:
            self._resources[key].cancel()

    def forget(self, driver: str) -> None:
        """Stop the commits of a driver that has gone, and release what they hold; idempotent."""
        for key in [key for key in self._resources if key.startswith(driver)]:
            self.cancel(key)
            self.close(key)

    def close(self, key: str) -> None:
        resources = self._resources.pop(key, None)
        if resources is not None:
            resources.close()


@dataclass(slots=True)
class _Counted:
    """A commit's part of a limit that it may share."""

    began: float = field(default_factory=time.monotonic)
    requests: int = 0
    throttled: int = 0

    def note(self, method: str, arguments: tuple[object, ...]) -> None:
        """Count what a holder of the commit reports to the limit."""
        if method in ("grant", "throttled"):
            self.requests += cast("int", arguments[1])
            self.throttled += method == "throttled"

    def own(self, limit: LimitStatistics) -> LimitStatistics:
        """Return the limit's statistics: this commit's requests, and all throttling since it began."""
        age = time.monotonic() - self.began
        spans = tuple(
            replace(span, began_seconds_ago=min(span.began_seconds_ago, age))
            for span in limit.spans
            if span.last_seconds_ago <= age
        )
        return replace(limit, requests=self.requests, throttled=self.throttled, spans=spans)


class CommitHost:
    """The limit of requests and the coordinator of each commit, which its processes share; a threaded
    actor. Ray starts a lost host again, empty: a limit learns again how much the store accepts, and for
    the coordinator a caller passes the `life` of the host that it knows."""

    __repr__ = _Shown()

    def __init__(self) -> None:
        self.shown = "the host of commits"
        self._lock = threading.Lock()
        self._life = uuid.uuid4().hex
        self._limits: dict[str, RateLimit] = {}
        self._directories: dict[str, DirectoryCoordinator] = {}
        self._counted: dict[str, _Counted] = {}
        self._ended: set[str] = set()

    def life(self) -> str:
        """Return the id that distinguishes this host from the next one."""
        return self._life

    def limit(
        self, key: str, name: str, per_second: float | None, method: str, *arguments: object
    ) -> object:
        """Call a method of the `RateLimit` called `name`, which commits can share; it is made with these
        requests `per_second`. `LeaseLostError` after the commit has ended."""
        with self._lock:
            if self._has_ended(key):
                raise LeaseLostError("this commit has ended, so it can make no more requests")
            limit = self._limits.get(name)
            if limit is None:
                limit = self._limits[name] = RateLimit(per_second)
            counted = self._counted.setdefault(key, _Counted())
            counted.note(method, arguments)
        # Outside the lock of the host: a limit has its own, and commits must not wait for each other.
        answer = getattr(limit, method)(*arguments)
        return counted.own(answer) if isinstance(answer, LimitStatistics) else answer

    def directories(self, key: str, life: str, method: str, *arguments: object) -> object:
        """Call a method of a commit's coordinator; `CoordinatorLostError` in another `life`."""
        if life != self._life:
            raise CoordinatorLostError("the coordinator of this commit was lost and runs again, empty")
        with self._lock:
            directories = self._directories.setdefault(key, DirectoryCoordinator())
        return getattr(directories, method)(*arguments)

    def end(self, key: str) -> None:
        """Forget a commit; idempotent."""
        with self._lock:
            # Kept for the host's life: a worker that was taken for lost may ask long after the end.
            self._ended.add(key)
            self._limits.pop(key, None)
            self._directories.pop(key, None)
            self._counted.pop(key, None)

    def _has_ended(self, key: str) -> bool:
        return key in self._ended


_BOUNDARIES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


class WorkerMetrics:
    """Exports the `IOStatistics` of results of work at its node's ``/metrics``. Ray puts ``ray_`` before
    each name, so they begin with ``committer``."""

    def __init__(self) -> None:
        self._operations = Counter(
            "committer_operations",
            description="Operations of commits by name, as in the _SUCCESS file.",
            tag_keys=("operation",),
        )
        self._rename_seconds = Histogram(
            "committer_rename_seconds",
            description="Mean seconds of a file's rename, one sample per shard.",
            boundaries=_BOUNDARIES,
        )

    def note(self, result: object) -> None:
        """Add the measurements of one call: one increment per counter, one observation per shard."""
        statistics = getattr(result, "statistics", None)
        if statistics is None:
            return
        for name, value in statistics.counters.items():
            if value > 0:
                self._operations.inc(value, tags={"operation": name})
        mean = statistics.meanstatistics.get(f"{COMMIT_FILE_RENAME}.mean")
        if mean is not None and mean.samples:
            self._rename_seconds.observe(mean.sum / mean.samples / 1000)
