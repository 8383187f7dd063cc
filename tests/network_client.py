"""A machine that mounts a network file system, and remembers what it has listed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import structs

from ray_committer.protocol.paths import ancestors, join, parent
from ray_committer.stores.base import FileStatus, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.network_files import Mounts

KIND = "nfs4"


class NetworkClient(LocalStore):
    """`LocalStore` whose listings, and names that were not there, are remembered until this client has
    changed the directory itself; of what others change it sees nothing before.

    Directories are known by their inode, so that one which was renamed is still remembered.
    """

    def __init__(self) -> None:
        super().__init__(StoreSpec("file"), mounts=Mounts(lambda _: KIND))
        self._listed: dict[int, tuple[int, list[FileStatus]]] = {}
        self._absent: set[str] = set()
        self.revalidated: list[str] = []

    def list_status(self, path: str) -> list[FileStatus]:
        if path in self._absent:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        try:
            inode = os.stat(path).st_ino
            if inode not in self._listed:
                self._listed[inode] = (os.open(path, os.O_DIRECTORY), super().list_status(path))
        except FileNotFoundError:
            self._absent.add(path)
            raise
        return [structs.replace(one, path=join(path, one.name)) for one in self._listed[inode][1]]

    def revalidate(self, path: str) -> None:
        self.revalidated.append(path)
        if path in self._absent:  # of which this client says itself that it is not there
            self._changing(super().revalidate, parent(path))
        self._changing(super().revalidate, path)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._changing(super().rename, source, dest, version)

    def write(self, path: str, data: bytes) -> None:
        self._changing(super().write, path, data)

    def mkdirs(self, path: str) -> None:
        self._changing(super().mkdirs, path)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self._changing(partial(super().replace, old=old), source, dest, version)

    def advance(self, *arguments: Any) -> Any:
        return self._changing(super().advance, *arguments)

    def move_directory(self, source: str, dest: str) -> None:
        self._changing(super().move_directory, source, dest)

    def set_aside(self, path: str, place: str) -> None:
        self._changing(super().set_aside, path, place)

    def delete_file(self, path: str) -> bool:
        return bool(self._changing(super().delete_file, path))

    def delete_directory(self, path: str) -> bool:
        return bool(self._changing(super().delete_directory, path))

    def remove_empty_directory(self, path: str) -> bool:
        return bool(self._changing(super().remove_empty_directory, path))

    def _changing(self, request: Callable[..., Any], *arguments: Any) -> Any:
        with self._forgets_what_changes():
            return request(*arguments)

    @contextmanager
    def _forgets_what_changes(self) -> Iterator[None]:
        above = {path: os.open(_nearest(path), os.O_DIRECTORY) for path in self._absent}
        marked = {*above.values(), *(opened for opened, _ in self._listed.values())}
        for opened in marked:
            os.utime(opened, ns=(0, 0))
        try:
            yield
        finally:
            changed = {opened for opened in marked if os.fstat(opened).st_mtime_ns != 0}
            self._absent -= {path for path, opened in above.items() if opened in changed}
            self._listed = {key: one for key, one in self._listed.items() if one[0] not in changed}
            for opened in changed.union(above.values()):
                os.close(opened)


def _nearest(path: str) -> str:
    return next((above for above in ancestors(path, "/") if os.path.isdir(above)), "/")
