"""What a commit needs of whatever runs its work.

Work is a module-level function ``work(resources, item)``; `resources` is opened once a process by
the function that the executor was made with. Work may run more than once (a lost worker's item runs
again), so it must be idempotent; each item's result is yielded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from ray_committer.directories import Directories

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Any, Item], Result]
OpenResources = Callable[[], Any]


class WorkExecutor(Protocol):
    """Runs work over items; results come in no order, with a bounded number of items in progress.

    An exception of the work is raised to the caller after the items in progress have ended.
    """

    name: str
    width: int
    """How many items are worked on at once."""
    directories: Directories

    def run_tasks(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run short, stateless work."""

    def run_on_workers(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run work on long-lived workers that keep their store client."""

    def start_workers(self) -> None:
        """Start the long-lived workers; idempotent, an error if they cannot be had."""

    def admit_workers(self, check: Work[Item, Result], item: Item) -> None:
        """Run `check` once on every worker, later ones included, before it gets other work."""

    def cancel(self) -> None:
        """Ask running work to stop at its next step; idempotent, from any thread."""

    def close(self) -> None:
        """Release what was started; idempotent."""
