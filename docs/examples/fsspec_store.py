"""A store on any fsspec file system, at its owner's risk: it may replace or duplicate a file.

fsspec guarantees neither that a rename is atomic nor that it keeps an existing file, and for many stores
it copies and deletes. Here both ends are checked first and renames to one name take turns, which helps
only against this process. A file that is found twice stops the commit; nothing is ever guessed.
"""

from __future__ import annotations

import errno
import os
import platform
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fsspec.core import url_to_fs
from fsspec.spec import AbstractFileSystem

from ray_committer.errors import StoreRefusedError
from ray_committer.protocol.paths import parent
from ray_committer.stores.base import (
    FileStatus,
    StoreCapabilities,
    StoredState,
    StoreOperations,
    StoreSpec,
)
from ray_committer.stores.registry import shown_url
from ray_committer.stores.state_names import read_state_name, state_rename

_LOCKS = 64


def open_fsspec_store(spec: StoreSpec) -> StoreOperations:
    """Open the store of `spec`, whose storage options are those of fsspec: the entry point."""
    try:
        return FsspecStore(spec)
    except (ImportError, TypeError, ValueError) as e:
        raise StoreRefusedError(
            f"{shown_url(spec, '/')}: fsspec cannot open it on {platform.node()}: {e}",
            "install what it needs on all nodes",
        ) from e


class FsspecStore(StoreOperations):
    """`StoreOperations` on an fsspec file system that has directories; proves renames by size alone."""

    def __init__(self, spec: StoreSpec) -> None:
        self._fs, root = url_to_fs(f"{spec.scheme}://{spec.authority}/", **spec.storage_options)
        self._root = root.rstrip("/")
        kind = type(self._fs)
        self._copies = kind.mv is AbstractFileSystem.mv and not hasattr(kind, "_mv")
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self.spec = spec
        self.capabilities = StoreCapabilities(
            listing_is_cheap=True, max_path_length=1024, max_name_length=255, risk=self._risk()
        )

    def get_status(self, path: str) -> FileStatus | None:
        with self._errors(path):
            try:
                return self._status(path, self._fs.info(self._own(path)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list_status(self, path: str) -> list[FileStatus]:
        with self._errors(path):
            own = self._own(path)
            found = self._fs.ls(own, detail=True)
            if any(one["name"].rstrip("/") == own and one["type"] != "directory" for one in found):
                raise _error(NotADirectoryError, errno.ENOTDIR, path)
            names = ((one["name"].rstrip("/").rpartition("/")[2], one) for one in found)
            return [self._status(f"{path.rstrip('/')}/{name}", one) for name, one in names]

    def list_files(self, path: str) -> list[FileStatus]:
        found, level = [], [path]
        while level:
            listed = [status for directory in level for status in self._list_if_there(directory)]
            found += [status for status in listed if not status.is_directory]
            level = [status.path for status in listed if status.is_directory]
        return found

    def read(self, path: str) -> bytes:
        with self._errors(path):
            data: bytes = self._fs.cat_file(self._own(path))
            return data

    def write(self, path: str, data: bytes) -> None:
        with self._errors(path):
            self._fs.pipe_file(self._own(path), data)

    def mkdirs(self, path: str) -> None:
        with self._errors(path):
            for above in _upwards(path):
                if self._fs.isfile(self._own(above)):
                    raise _error(FileExistsError, errno.EEXIST, above)
            self._fs.makedirs(self._own(path), exist_ok=True)
            if not self._fs.isdir(self._own(path)):
                raise OSError(errno.ENOTSUP, "the file system keeps no empty directories", path)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:  # noqa: ARG002
        with self._errors(source), self._locks[hash(dest) % _LOCKS]:
            self._check_ends(source, dest)
            if self._fs.exists(self._own(dest)):
                raise _error(FileExistsError, errno.EEXIST, source, dest)
            self._move(source, dest)

    def replace(
        self,
        source: str,
        dest: str,
        version: str | None = None,  # noqa: ARG002
        *,
        old: str | None = None,  # noqa: ARG002
    ) -> None:
        with self._errors(source), self._locks[hash(dest) % _LOCKS]:
            self._check_ends(source, dest)
            if self._fs.isdir(self._own(dest)):
                raise _error(IsADirectoryError, errno.EISDIR, source, dest)
            if self._fs.exists(self._own(dest)):
                self._fs.rm_file(self._own(dest))
            self._move(source, dest)

    def read_state(self, path: str) -> StoredState | None:
        return read_state_name(self.list_status, path)

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        self.rename(*state_rename(path, old, text))
        return StoredState(text)

    def move_directory(self, source: str, dest: str) -> None:
        """Rename a directory file by file, because fsspec guarantees nothing about directories."""
        with self._errors(source):
            if self._fs.exists(self._own(dest)):
                raise _error(FileExistsError, errno.EEXIST, source, dest)
            if not self._fs.isdir(self._own(source)):
                raise _error(FileNotFoundError, errno.ENOENT, source)
            self._fs.mv(self._own(source), self._own(dest), recursive=True)

    def delete_file(self, path: str) -> bool:
        with self._errors(path):
            if not self._fs.isfile(self._own(path)):
                return False
            self._fs.rm_file(self._own(path))
            return True

    def delete_directory(self, path: str) -> bool:
        with self._errors(path):
            if not self._fs.isdir(self._own(path)):
                return False
            for status in self.list_status(path):
                if status.is_directory:
                    self.delete_directory(status.path)
                else:
                    self._fs.rm_file(self._own(status.path))
            self._fs.rmdir(self._own(path))
            return True

    def remove_empty_directory(self, path: str) -> bool:
        with self._errors(path):
            if not self._fs.isdir(self._own(path)) or self.list_status(path):
                return False
            self._fs.rmdir(self._own(path))
            return True

    def _risk(self) -> str:
        shown = shown_url(self.spec, "/")
        how = "renames copy and delete each file" if self._copies else "renames are the store's own"
        return (
            f"{shown}: is used at its owner's risk and is not known to be safe: {how}, and are "
            f"neither atomic nor conditional. A file that another process writes at the same time can "
            f"be replaced. A crash can leave one file at both places, which stops the commit. Only a "
            f"file's size proves after a crash that it was moved"
        )

    def _check_ends(self, source: str, dest: str) -> None:
        """``FileNotFoundError`` unless there is a file to move and a directory to move it to."""
        for path, is_there in ((source, self._fs.isfile), (parent(dest), self._fs.isdir)):
            if not is_there(self._own(path)):
                raise _error(FileNotFoundError, errno.ENOENT, path)

    def _move(self, source: str, dest: str) -> None:
        """Move a file; not by fsspec's own copy and delete, which treat names as patterns."""
        if self._copies:
            self._fs.cp_file(self._own(source), self._own(dest))
            self._fs.rm_file(self._own(source))
        else:
            self._fs.mv(self._own(source), self._own(dest))

    def _status(self, path: str, info: Mapping[str, Any]) -> FileStatus:
        """Make a status without time and etag, because a copy keeps neither."""
        if info["type"] == "directory":
            return FileStatus(path, is_directory=True)
        return FileStatus(path, is_directory=False, size=info["size"] or 0)

    def _list_if_there(self, path: str) -> list[FileStatus]:
        try:
            return self.list_status(path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _own(self, path: str) -> str:
        return f"{self._root}{path}".rstrip("/") or "/"

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Drop fsspec's cached listings, and turn any other exception into an ``OSError``."""
        self._fs.invalidate_cache()
        try:
            yield
        except OSError:
            raise
        except Exception as e:
            raise OSError(errno.EIO, f"{type(e).__name__}: {e}", path) from e


def _upwards(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = parent(path)


def _error(kind: type[OSError], number: int, path: str, other: str | None = None) -> OSError:
    return kind(number, os.strerror(number), path, None, other)
