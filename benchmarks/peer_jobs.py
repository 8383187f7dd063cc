"""Jobs that any committer can commit, written to any of the stores where they are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

from ray_committer.protocol.manifest import FileEntry
from ray_committer.stores.base import StoreOperations

T = TypeVar("T")
R = TypeVar("R")
OLD = "old-0"
USUAL = 10
"""The number of directories, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of `tasks` with `files` each: every task writes to each of the directories, or to one of its
    own, `apart` from the others; one file goes to the destination itself. If the directories are
    `existing`, each holds a file of an earlier job."""

    tasks: int
    files: int
    partitions: int = USUAL
    existing: bool = False
    apart: bool = False

    @property
    def directories(self) -> list[str]:
        """Where files are put, relative to the destination."""
        if self.apart:
            return [f"/p={task}" for task in range(self.tasks)]
        if self.files == 1:
            return [""]
        return [f"/p={number}" for number in range(min(self.partitions, self.files))]

    @property
    def all_files(self) -> int:
        return self.tasks * self.files

    @property
    def new_directories(self) -> int:
        """How many directories the job can put in place whole."""
        return 0 if self.existing or self.directories == [""] else len(self.directories)

    def of_task(self, task: int) -> list[str]:
        """The directories that a task writes to."""
        return [f"/p={task}"] if self.apart else self.directories

    def __str__(self) -> str:
        words = f"{self.tasks:,}x{self.files}"
        if self.apart:
            return f"{words}, a directory each"
        partitions = "" if self.partitions == USUAL else f" in {self.partitions} directories"
        return f"{words}{partitions}{', existing' if self.existing else ''}"


Where = Callable[[int, str], tuple[str, str]]
"""Where a task writes files for a directory of the output: the directory, and a part of their names."""


@dataclass(frozen=True)
class Place:
    """A destination: `url` for Hadoop and for us, `root` its path in `store`, `seconds` a request."""

    name: str
    url: str
    root: str
    store: StoreOperations
    seconds: float = 0.0
    threads: int = 1
    """That write the files of a job."""

    def clear(self) -> None:
        self.store.delete_directory(self.root)

    def write(self, shape: Shape, where: Where) -> list[list[FileEntry]]:
        """Write the files of all tasks; what manifests say of them."""
        if shape.existing:
            for own in shape.directories:
                self.store.mkdirs(self.root + own)
                self.store.write(f"{self.root}{own}/{OLD}", b"")
        written = self.map(partial(self._write_task, shape, where), range(shape.tasks))
        directories = {directory for files in written for directory, _, _ in files}
        found = chain.from_iterable(self.map(self.store.list_status, directories))
        modified = {status.path: status.modified_milliseconds for status in found}
        scheme = self.url.removesuffix(self.root)
        return [
            [
                FileEntry(
                    s=f"{scheme}{directory}/{name}",
                    d=f"{scheme}{self.root}{own}/{name}",
                    z=0,
                    m=modified[f"{directory}/{name}"],
                )
                for directory, own, name in files
            ]
            for files in written
        ]

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Do something for each of some items, by as many threads as write here."""
        if self.threads == 1:
            return list(map(function, items))
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(function, items))

    def _write_task(self, shape: Shape, where: Where, task: int) -> list[tuple[str, str, str]]:
        """The files of a task: where each was written, where it is to be, and its name."""
        found, owns = [], shape.of_task(task)
        for first, own in enumerate(owns):
            directory, attempt = where(task, own)
            self.store.mkdirs(directory)
            for number in range(first, shape.files, len(owns)):
                name = f"part-{task:05d}{attempt}-c{number:05d}"
                self.store.write(f"{directory}/{name}", b"")
                found.append((directory, own, name))
        return found

    def check(self, shape: Shape) -> None:
        """Each file must be in its place, and nothing else be left."""
        listings = [self.store.list_status(self.root + own) for own in shape.directories]
        files = {one.path for listing in listings for one in listing if one.name.startswith("part-")}
        assert len(files) == shape.all_files
        left = {one.path for one in self.store.list_status(self.root)} - files
        expected = {self.root + own for own in ("/_SUCCESS", *shape.directories) if own}
        assert left <= expected, left - expected
