"""A store in memory that behaves like one of several kinds of real stores.

Stores differ in what a rename keeps, which identifies a file after a crash, and in whether directories
exist. Nothing here depends on the wall clock, so a test can be repeated exactly.
"""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any

from ray_committer.protocol.paths import is_inside, join, parent
from ray_committer.stores.base import (
    FilePage,
    FileStatus,
    StoreCapabilities,
    StoredState,
    StoreOperations,
    StoreSpec,
    Versions,
)
from ray_committer.stores.state_names import read_state_name, state_rename

FIRST_MILLISECONDS = 1_700_000_000_000


class Identity(StrEnum):
    """What the store reports about a file and keeps at a rename, besides the file's size."""

    ETAG = "etag"
    GENERATION = "generation"
    """A checksum of the content is kept, but the version changes at each rename, as on GCS."""
    MODIFICATION_TIME = "modification time"
    FILE_ID = "file id"
    SIZE_ONLY = "size only"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a `MemoryStore`: its content, a number that it keeps when it is renamed, and when it was
    written, in time and in order."""

    data: bytes
    number: int
    modified_milliseconds: int
    generation: int


_VERSIONS = {Identity.ETAG: Versions.ETAG, Identity.GENERATION: Versions.LISTED}
_ETAGS: dict[Identity, Callable[[StoredFile], str]] = {
    Identity.ETAG: lambda file: f"etag-{file.number}",
    Identity.GENERATION: lambda file: f"crc32={zlib.crc32(file.data)}",
}


def _is_in(name: str, directories: Sequence[str]) -> bool:
    return any(name == directory or is_inside(name, directory) for directory in directories)


class MemoryStore(StoreOperations):
    """`StoreOperations` in memory; thread-safe, every operation is atomic.

    With `real_directories` a file's parent must be created first, as on file systems, HDFS and ADLS.
    Without it, as on object stores, a directory exists while a file is below it or `mkdirs` has left a
    mark for it. One request lists `page_names` names. `clock` gives the modification time of each write,
    in milliseconds; by default it counts writes. A directory has the `rights` of the nearest one above
    it for which they are set.
    """

    def __init__(
        self,
        *,
        identity: Identity = Identity.MODIFICATION_TIME,
        real_directories: bool = True,
        authority: str = "test",
        listing_is_cheap: bool = True,
        page_names: int = 1000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.spec = StoreSpec("memory", authority)
        self.capabilities = StoreCapabilities(
            listing_is_cheap,
            max_path_length=4095,
            max_name_length=255,
            has_directories=real_directories,
            versions=_VERSIONS.get(identity, Versions.NONE),
        )
        self.identity = identity
        self.real_directories = real_directories
        self.page_names = page_names
        self._clock = clock
        self._lock = threading.RLock()
        self._writes = 0
        self._files: dict[str, StoredFile] = {}
        self._directories = {"/"}
        self.rights: dict[str, str | None] = {"/": "usual"}

    def has(self, operation: Callable[..., Any]) -> bool:
        if operation is StoreOperations.list_files_page:  # as on Azure and Google
            return self.identity in _VERSIONS
        is_left_out = operation in (
            StoreOperations.move_directory,
            StoreOperations.move_whole,
            StoreOperations.set_aside,
        )
        return super().has(operation) and (self.real_directories or not is_left_out)

    def copy(self) -> MemoryStore:
        """Return an independent store of the same kind with the same content."""
        with self._lock:
            twin = copy(self)
            twin._lock = threading.RLock()
            twin._files = dict(self._files)
            twin._directories = set(self._directories)
            twin.rights = dict(self.rights)
            return twin

    def files(self, directory: str = "/") -> dict[str, bytes]:
        """The files below `directory` and their contents, sorted by path."""
        with self._lock:
            paths = sorted(path for path in self._files if is_inside(path, directory))
            return {path: self._files[path].data for path in paths}

    def get_status(self, path: str) -> FileStatus | None:
        with self._lock:
            if path in self._files or self._is_directory(path):
                return self._status(path)
            return None

    def list_status(self, path: str) -> list[FileStatus]:
        with self._lock:
            self._check_directory(path)
            return [self._status(child) for child in sorted(set(self._children(path)))]

    def list_page(self, path: str) -> list[FileStatus] | None:
        listed = self.list_status(path)
        return listed if len(listed) <= self.page_names else None

    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        listed = self.list_page(path)
        return None if listed is None else [status for status in listed if status.name in names]

    def list_files(self, path: str) -> list[FileStatus]:
        with self._lock:
            return [self._status(name) for name in self._files if is_inside(name, path)]

    def list_files_page(self, path: str, after: str | None = None) -> FilePage:
        start = int(after or 0)
        files = sorted(self.list_files(path), key=attrgetter("path"))
        end = start + self.page_names
        return FilePage(files[start:end], str(end) if end < len(files) else None)

    def read(self, path: str) -> bytes:
        with self._lock:
            return self._file(path).data

    def write(self, path: str, data: bytes) -> None:
        with self._lock:
            self._check_place(path)
            self._writes += 1
            time = self._clock() if self._clock else FIRST_MILLISECONDS + self._writes
            self._files[path] = StoredFile(bytes(data), self._writes, time, self._writes)

    def mkdirs(self, path: str) -> None:
        with self._lock:
            above = list(_upwards(path))
            for directory in above:
                if directory in self._files:
                    raise _error(FileExistsError, errno.EEXIST, directory)
            self._directories.update(above if self.real_directories else (path,))

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        with self._lock:
            file = self._version(source, version)
            if dest in self._files or self._is_directory(dest):
                raise _error(FileExistsError, errno.EEXIST, source, dest)
            self._check_place(dest)
            self._move(source, dest, file)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        with self._lock:
            file = self._version(source, version)
            self._check_place(dest)
            if old is not None and self.identity in _VERSIONS:
                there = self._files.get(dest)
                if there is None or self._version_of(there) != old:
                    raise _error(FileExistsError, errno.EEXIST, source, dest)
            self._move(source, dest, file)

    def read_state(self, path: str) -> StoredState | None:
        if self.real_directories:
            return read_state_name(self.list_status, path, looks=1)
        with self._lock:
            file = self._files.get(path)
            return None if file is None else StoredState(file.data.decode(), str(file.generation))

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        with self._lock:
            if self.real_directories:
                self.rename(*state_rename(path, old, text))
                return StoredState(text)
            there = self._files.get(path)
            if (str(there.generation) if there else None) != (old.version if old else None):
                raise _error(FileExistsError, errno.EEXIST, path)
            self.write(path, text.encode())
            return StoredState(text, str(self._files[path].generation))

    def move_directory(self, source: str, dest: str) -> None:
        with self._lock:
            self._move_directory(source, dest)

    def move_whole(self, source: str, dest: str) -> None:
        with self._lock:
            if self._is_directory(dest):
                raise _error(FileExistsError, errno.EEXIST, source, dest)
            self._move_directory(source, dest)

    def rights_below(self, path: str) -> str | None:
        with self._lock:
            return self._rights(path) if self._is_directory(path) else None

    def set_aside(self, path: str, place: str) -> None:
        with self._lock:
            is_file = path in self._files or not self._is_directory(path)
        rename = self.rename if is_file else self.move_directory
        rename(path, place)

    def delete_file(self, path: str) -> bool:
        with self._lock:
            if path not in self._files and self._is_directory(path):
                raise _error(IsADirectoryError, errno.EISDIR, path)
            return self._files.pop(path, None) is not None

    def delete_version(self, path: str, version: str | None) -> bool:
        with self._lock:
            file = self._files.get(path)
            if file is not None and version not in (str(file.generation), self._version_of(file)):
                raise _error(FileExistsError, errno.EEXIST, path)
            return self.delete_file(path)

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        with self._lock:
            listed = {name: file for name, file in self._files.items() if _is_in(name, directories)}
            marks = {name for name in self._directories if _is_in(name, directories)}
        if not holds():
            return False
        with self._lock:
            for name, file in listed.items():
                if self._files.get(name) == file:
                    del self._files[name]
            self._directories -= marks
        return True

    def delete_directory(self, path: str) -> bool:
        with self._lock:
            if not self._is_there(path):
                return False
            for file in [name for name in self._files if is_inside(name, path)]:
                del self._files[file]
            self._directories = {
                name
                for name in self._directories
                if name == "/" or not (name == path or is_inside(name, path))
            }
            return True

    def remove_empty_directory(self, path: str) -> bool:
        with self._lock:
            if not self._is_there(path) or path == "/" or any(self._children(path)):
                return False
            self._directories.discard(path)
            return True

    def _move(self, source: str, dest: str, file: StoredFile) -> None:
        del self._files[source]
        self._writes += 1
        self._files[dest] = replace(file, generation=self._writes)

    def _move_directory(self, source: str, dest: str) -> None:
        if not self.real_directories:
            raise _error(OSError, errno.ENOTSUP, source)
        self._check_directory(source)
        self._check_directory(parent(dest))
        if is_inside(dest, source):
            raise _error(OSError, errno.EINVAL, source, dest)
        if dest in self._files or any(self._children(dest)):
            raise _error(FileExistsError, errno.EEXIST, source, dest)
        self._files = {moved(name, source, dest): file for name, file in self._files.items()}
        self._directories = {moved(name, source, dest) for name in self._directories}

    def _status(self, path: str) -> FileStatus:
        file = self._files.get(path)
        if file is None:
            return FileStatus(path, is_directory=True, rights=self._rights(path))
        kept = self.identity
        return FileStatus(
            path,
            is_directory=False,
            size=len(file.data),
            modified_milliseconds=(
                file.modified_milliseconds if kept is Identity.MODIFICATION_TIME else None
            ),
            etag=_ETAGS[kept](file) if kept in _ETAGS else None,
            file_id=f"id-{file.number}" if kept is Identity.FILE_ID else None,
            version=self._version_of(file),
        )

    def _rights(self, path: str) -> str | None:
        return next(self.rights[above] for above in (*_upwards(path), "/") if above in self.rights)

    def _version_of(self, file: StoredFile) -> str | None:
        match self.identity:
            case Identity.ETAG:
                return f"etag-{file.number}"
            case Identity.GENERATION:
                return str(file.generation)
        return None

    def _version(self, path: str, wanted: str | None) -> StoredFile:
        file = self._file(path)
        if wanted is not None and wanted != self._version_of(file):
            raise _error(FileExistsError, errno.EEXIST, path)
        return file

    def _is_directory(self, path: str) -> bool:
        if path in self._directories:
            return True
        return not self.real_directories and any(self._below(path))

    def _is_there(self, path: str) -> bool:
        """Return whether `path` is a directory; raise an error if it is a file."""
        if self._is_directory(path):
            return True
        if path in self._files:
            raise _error(NotADirectoryError, errno.ENOTDIR, path)
        return False

    def _check_directory(self, path: str) -> None:
        """Raise an error unless `path` is a directory."""
        if self._is_directory(path):
            return
        if any(above in self._files for above in _upwards(path)):
            raise _error(NotADirectoryError, errno.ENOTDIR, path)
        raise _error(FileNotFoundError, errno.ENOENT, path)

    def _check_place(self, path: str) -> None:
        """Raise an error unless a file can be put at `path`."""
        if path not in self._files and self._is_directory(path):
            raise _error(IsADirectoryError, errno.EISDIR, path)
        if self.real_directories:
            self._check_directory(parent(path))

    def _file(self, path: str) -> StoredFile:
        file = self._files.get(path)
        if file is not None:
            return file
        if self._is_directory(path):
            raise _error(IsADirectoryError, errno.EISDIR, path)
        raise _error(FileNotFoundError, errno.ENOENT, path)

    def _below(self, path: str) -> Iterator[str]:
        """The files and marks of directories below `path`."""
        inside = join(path, "")
        for names in (self._files, self._directories):
            for name in names:
                if name.startswith(inside) and name != inside:
                    yield name

    def _children(self, path: str) -> Iterator[str]:
        """The children of `path`; on a flat store, a directory once for each file below it."""
        start = len(join(path, ""))
        for name in self._below(path):
            yield name[:start] + name[start:].partition("/")[0]


def moved(path: str, source: str, dest: str) -> str:
    """The new name of `path` after the directory `source` was renamed to `dest`."""
    is_moved = path == source or is_inside(path, source)
    return dest + path.removeprefix(source) if is_moved else path


def _upwards(path: str) -> Iterator[str]:
    """The path and the directories above it."""
    while path != "/":
        yield path
        path = parent(path)


def _error(kind: type[OSError], number: int, path: str, second: str | None = None) -> OSError:
    return kind(number, os.strerror(number), path, None, second)
