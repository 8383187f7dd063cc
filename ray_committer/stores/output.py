"""Open the files that tasks write and readers read; all other work on a store is small requests.

A commit never writes data, so a store has no operation for it. Python opens local files, pyarrow those
on S3, fsspec any other. The tasks of a process share an fsspec client, as fsspec does it.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO, cast

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import fsspec_options, fsspec_url

_PART_BYTES = 8 * 1024 * 1024


def open_output(spec: StoreSpec, path: str) -> BinaryIO:
    """Create `path` and return it open for writing; a local file must not exist.

    `StoreRefusedError` if fsspec cannot open such a store here.
    """
    if spec.scheme == "file":
        return io.BufferedWriter(_NamedFile(path, "xb"))
    opened: Any = file_system(spec, "write").open(fsspec_url(spec, path), "wb")
    return cast("BinaryIO", opened)


class _NamedFile(io.FileIO):
    """A file whose errors name it: those of Python do not if a disk is full."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as e:
            raise OSError(e.errno, e.strerror, self.name) from e

    def close(self) -> None:
        try:
            super().close()
        except OSError as e:
            raise OSError(e.errno, e.strerror, self.name) from e


def open_input(spec: StoreSpec, path: str) -> BinaryIO:
    """Return a file open for reading; errors as `open_output`."""
    if spec.scheme == "file":
        return open(path, "rb")
    if spec.scheme == "s3":
        from ray_committer.stores.s3.arrow import arrow_file_system

        return cast("BinaryIO", arrow_file_system(spec).open_input_file(f"{spec.authority}{path}"))
    opened: Any = file_system(spec, "read").open(fsspec_url(spec, path), "rb")
    return cast("BinaryIO", opened)


def copy_file(store: StoreOperations, source: str, dest: str) -> int:
    """Copy a file to a new one, a part at a time; return how many bytes were copied."""
    copied = 0
    with open_input(store.spec, source) as read, open_output(store.spec, dest) as written:
        while part := read.read(_PART_BYTES):
            written.write(part)
            copied += len(part)
    return copied


def file_system(spec: StoreSpec, action: str) -> Any:
    """Return fsspec's file system for a store; `StoreRefusedError` if it is not installed here.

    `action` says in the error what cannot be done.
    """
    from fsspec.core import url_to_fs  # slow to import, and not needed for local files

    try:
        fs, _ = url_to_fs(f"{spec.scheme}://{spec.authority}/", **fsspec_options(spec))
    except (ImportError, TypeError, ValueError) as e:
        raise StoreRefusedError(
            f"{spec.scheme}://{spec.authority}: fsspec cannot {action} there from this node: {e}",
            f"install what it needs on all nodes, or {action} in another way",
        ) from e
    return fs
