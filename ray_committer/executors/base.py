"""The interface of executors, which run the work of a commit.

Work is a module-level function ``work(resources, item)``. The function that the executor was made with
opens `resources` once per process. Work can run more than once (a lost worker's item runs again), so it
must be idempotent; each item's result is yielded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from ray_committer.events import EventSink
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.thread_pool import ThreadPool
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import LimitStatistics

DRIVER_THREADS = 16

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[..., Result]  # type: ignore[explicit-any]  # of the resources and an item, which differ
ResultRef = object
"""An executor's reference to a result that stays where it was made; nothing else can read it."""


@dataclass(frozen=True, slots=True)
class Supplied(Generic[Item]):
    """An item and earlier results for it: the work is called with ``(resources, item, *results)``. If a
    result was lost with its node and cannot be made again, the work gets None instead."""

    item: Item
    refs: tuple[ResultRef, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where work runs: the worker's name, its node's address, and its process id."""

    worker: str
    node: str
    process: int


class Resources(Protocol):
    """The objects that work uses in its process, such as the store."""

    place: Place | None
    """Where the work runs, if an executor has started a worker for it."""
    threads: ThreadPool | None
    """The threads that make the requests of the work; None if the thread that does it makes them."""

    @property
    def requests(self) -> int:
        """How many requests they have made."""

    def cancel(self) -> None:
        """Let running work stop at its next step; idempotent, from any thread."""

    def close(self) -> None:
        """Release what was opened; idempotent."""


OpenResources = Callable[[Permits], Resources]
"""Opens the resources of a process, which make no request without one of these permits."""


class WorkExecutor(Protocol):
    """Runs work over items; results come in no order, and the number of items in progress is limited. An
    exception of the work is raised to the caller after the items in progress have ended."""

    name: str
    width: int
    """The number of processes that items are shared among."""
    threads: int
    """The maximum number of requests to the store that each of them has in flight."""
    workers: int
    """The number that reports show: processes, or threads of this one."""
    starts_workers: bool
    """True if workers are processes, so that a commit may have to wait for their start."""
    permits: Permits
    """The permits for the driver's own requests."""
    driver: ThreadPool
    """The threads for the few requests that the driver makes at the same time."""

    @property
    def dashboard(self) -> str:
        """The URL of a page that shows the workers at work; empty if there is none."""

    @property
    def directories(self) -> DirectoryCoordinator:
        """The commit's coordinator."""

    def listen(self, sink: EventSink) -> None:
        """Report to `sink` which workers started and which were lost."""

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run work on workers that keep their store client; `Supplied` items allowed."""

    def run_with_ref(
        self, work: Work[tuple[Result, bytes]], items: Iterable[Item]
    ) -> Iterator[tuple[Result, ResultRef]]:
        """Run work with two results, the second of which stays where it was made."""

    def start_workers(self, *, first_only: bool = False) -> None:
        """Wait until all workers are ready, or the first; idempotent, an error if they cannot start."""

    def admit_workers(self, check: Work[Result], item: Item) -> None:
        """Run `check` once on every worker, and on later ones before they get work."""

    def limit_statistics(self) -> LimitStatistics:
        """Return what the limit of requests did so far."""

    def cancel(self) -> None:
        """Ask running work to stop at its next step; idempotent, from any thread."""

    def close(self) -> None:
        """Release what was started; idempotent."""


class Readiness(StrEnum):
    """Whether the workers of a pool can begin now."""

    READY = "ready"
    STARTING = "starting"
    TOO_FEW = "too few"
    """All are ready, but the cluster has grown and has room for more."""
    LOST = "lost"
    """A worker has ended or could not start, or there is no answer."""


class CommitPool(Protocol):
    """Workers that exist before the commit, such as a `ray_committer.commit_pool`."""

    reason: str
    """The reason for which a commit runs on them, for its report."""

    def close(self) -> None:
        """End the workers; idempotent."""

    def require_open(self) -> None:
        """Raise `RayNotAvailableError` if the pool is closed."""

    def readiness(self) -> Readiness:
        """Ask all workers; never fails, and waits for a moment at most."""


def call(work: Work[Result], resources: Resources, item: object) -> Result:
    """Call `work` in this process."""
    if isinstance(item, Supplied):
        return work(resources, item.item, *item.refs)
    return work(resources, item)
