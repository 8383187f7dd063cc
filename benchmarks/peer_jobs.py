"""Jobs that any committer can commit, written to any of the stores where they are compared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ray_committer.protocol.manifest import FileEntry
from ray_committer.stores.base import StoreOperations

OLD = "old-0"
USUAL = 10
"""The number of directories, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of `tasks` with `files` each: every task writes to each of the directories, one file goes to
    the destination itself. If the directories are `existing`, each holds a file of an earlier job."""

    tasks: int
    files: int
    partitions: int = USUAL
    existing: bool = False

    @property
    def directories(self) -> list[str]:
        if self.files == 1:
            return [""]
        return [f"/p={number}" for number in range(min(self.partitions, self.files))]

    def __str__(self) -> str:
        partitions = "" if self.partitions == USUAL else f" in {self.partitions} directories"
        return f"{self.tasks:,}x{self.files}{partitions}{', existing' if self.existing else ''}"


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
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(partial(self._write_task, shape, where), range(shape.tasks)))

    def _write_task(self, shape: Shape, where: Where, task: int) -> list[FileEntry]:
        found, scheme = [], self.url.removesuffix(self.root)
        places = {own: where(task, own) for own in shape.directories}
        for directory, _ in places.values():
            self.store.mkdirs(directory)
        for number in range(shape.files):
            own = shape.directories[number % len(shape.directories)]
            directory, attempt = places[own]
            name = f"part-{task:05d}{attempt}-c{number:05d}"
            path = f"{directory}/{name}"
            self.store.write(path, b"")
            status = self.store.get_status(path)
            assert status is not None
            dest = f"{scheme}{self.root}{own}/{name}"
            found.append(FileEntry(s=f"{scheme}{path}", d=dest, z=0, m=status.modified_milliseconds))
        return found

    def check(self, shape: Shape) -> None:
        """Each file must be in its place, and nothing else be left."""
        listings = [self.store.list_status(self.root + own) for own in shape.directories]
        files = {one.path for listing in listings for one in listing if one.name.startswith("part-")}
        assert len(files) == shape.tasks * shape.files
        left = {one.path for one in self.store.list_status(self.root)} - files
        expected = {self.root + own for own in ("/_SUCCESS", *shape.directories) if own}
        assert left <= expected, left - expected
