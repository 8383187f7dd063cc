"""Work in the calling thread, one item after another: for tests and the smallest jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ray_committer.directories import Directories, DirectoryCoordinator
from ray_committer.executors.base import Item, OpenResources, Result, Work


class InlineExecutor:
    """A `WorkExecutor` without concurrency."""

    name = "inline"
    width = 1

    def __init__(self, open_resources: OpenResources) -> None:
        self.directories: Directories = DirectoryCoordinator()
        self._resources = open_resources()

    def run_tasks(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        for item in items:
            yield work(self._resources, item)

    def run_on_workers(self, work: Work[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        return self.run_tasks(work, items)

    def start_workers(self) -> None:
        """They are here."""

    def admit_workers(self, check: Work[Item, Result], item: Item) -> None:
        check(self._resources, item)

    def cancel(self) -> None:
        self._resources.cancel()

    def close(self) -> None:
        """Nothing was started."""
