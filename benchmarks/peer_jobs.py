"""Jobs that any committer can commit, written to any of the stores where they are compared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ray_committer.protocol.manifest import FileEntry
from ray_committer.stores.base import StoreOperations


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of `tasks` with `files` each: every task writes to each of the directories, one file goes to
    the destination itself."""

    tasks: int
    files: int

    @property
    def directories(self) -> list[str]:
        return [f"/p={number}" for number in range(min(10, self.files))] if self.files > 1 else [""]

    def __str__(self) -> str:
        return f"{self.tasks:,}x{self.files}"


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

    def write(self, shape: Shape, directory: Callable[[int], str]) -> list[list[FileEntry]]:
        """Write the files of all tasks, each below its directory; what manifests say of them."""
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(partial(self._write_task, shape, directory), range(shape.tasks)))

    def _write_task(self, shape: Shape, directory: Callable[[int], str], task: int) -> list[FileEntry]:
        found, base, scheme = [], directory(task), self.url.removesuffix(self.root)
        for own in shape.directories:
            self.store.mkdirs(base + own)
        for number in range(shape.files):
            own = shape.directories[number % len(shape.directories)]
            self.store.write(f"{base}{own}/part-{task:05d}-{number:05d}", b"")
        for own in shape.directories:
            for one in self.store.list_status(base + own):
                dest = f"{scheme}{self.root}{own}/{one.name}"
                found.append(
                    FileEntry(s=f"{scheme}{one.path}", d=dest, z=0, m=one.modified_milliseconds)
                )
        return found

    def check(self, shape: Shape) -> None:
        """Each file must be in its place, and nothing else be left."""
        listings = [self.store.list_status(self.root + own) for own in shape.directories]
        files = {one.path for listing in listings for one in listing if one.name.startswith("part-")}
        assert len(files) == shape.tasks * shape.files
        left = {one.path for one in self.store.list_status(self.root)} - files
        expected = {self.root + own for own in ("/_SUCCESS", *shape.directories) if own}
        assert left <= expected, left - expected
