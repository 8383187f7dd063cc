"""What a commit needs of whatever runs its work.

Work is a module-level function ``work(resources, item)``; `resources` is opened once a process by
the function that the executor was made with. Work may run more than once (a lost worker's item runs
again), so it must be idempotent; each item's result is yielded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from ray_committer.directories import Directories
from ray_committer.events import EventSink
from ray_committer.permits import Permits
from ray_committer.ratelimit import LimitStatistics

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[..., Result]  # type: ignore[explicit-any]  # of the worker and an item, which differ
THREAD_PREFIX = "ray-committer"
"""How threads that do work in this process are named, with ``_`` and a number."""
Parked = object
"""A result that stays where it was made: in an executor's hands, not to be looked into."""


@dataclass(frozen=True, slots=True)
class Supplied(Generic[Item]):
    """An item and parked results for it: the work is called with ``(resources, item, *results)``.

    Where a parked result was lost with its node and cannot be made again, the work is given None.
    """

    item: Item
    parked: tuple[Parked, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where work runs: the worker's name, its node's address, and its process id."""

    worker: str
    node: str
    process: int


class Resources(Protocol):
    """What work has at hand in its process, such as the store; its requests need permits."""

    place: Place | None
    """Where the work runs, if that is a worker that an executor has started."""

    def guard(self, permits: Permits) -> None:
        """Make no request without one of these permits; called once, before there is work."""

    def cancel(self) -> None:
        """Let running work stop at its next step; idempotent, from any thread."""

    def close(self) -> None:
        """Give back what was opened; idempotent."""


OpenResources = Callable[[], Resources]


class WorkExecutor(Protocol):
    """Runs work over items; results come in no order, with a bounded number of items in progress.

    An exception of the work is raised to the caller after the items in progress have ended.
    """

    name: str
    width: int
    """How many items are worked on at once, at most."""
    threads: int
    """How many requests to the store each of them can have in flight."""
    starts_workers: bool
    """Whether workers are processes, for whose start a commit may have to wait."""
    permits: Permits
    """For the requests that the driver makes itself."""

    @property
    def dashboard(self) -> str:
        """The URL at which a person sees the workers at work; empty if there is none."""

    @property
    def directories(self) -> Directories:
        """The commit's coordinator."""

    def listen(self, sink: EventSink) -> None:
        """Tell `sink` which workers started and which were lost."""

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run work on workers that keep their store client; `Supplied` items allowed."""

    def park(
        self, work: Work[tuple[Result, bytes]], items: Iterable[Item]
    ) -> Iterator[tuple[Result, Parked]]:
        """Run work whose second result stays where it was made."""

    def start_workers(self, *, first_only: bool = False) -> None:
        """Wait until all workers are there, or the first; idempotent, an error if they cannot be had."""

    def admit_workers(self, check: Work[Result], item: Item) -> None:
        """Run `check` once on every worker, and on later ones before they get work."""

    def limit_statistics(self) -> LimitStatistics:
        """What the limit of requests did so far."""

    def cancel(self) -> None:
        """Ask running work to stop at its next step; idempotent, from any thread."""

    def close(self) -> None:
        """Release what was started; idempotent."""


class Readiness(StrEnum):
    """Whether the workers of a pool could begin now."""

    READY = "ready"
    STARTING = "starting"
    TOO_FEW = "too few"
    """All are ready, and the cluster has grown so that more are to be had."""
    LOST = "lost"
    """One has ended or could not start, or nobody answers."""


class CommitPool(Protocol):
    """Workers that are there before the commit, as from `ray_committer.commit_pool`."""

    reason: str
    """Why a commit runs on them, for its report."""

    def close(self) -> None:
        """End the workers; idempotent."""

    def require_open(self) -> None:
        """Raise `RayNotAvailableError` once it is closed."""

    def readiness(self) -> Readiness:
        """Ask all workers; never fails, and waits for a moment at most."""


def call(work: Work[Result], resources: Resources, item: object) -> Result:
    """Call `work` in this process."""
    if isinstance(item, Supplied):
        return work(resources, item.item, *item.parked)
    return work(resources, item)
