"""Open the files that tasks write and readers read; all other work on a store is small requests.

Python opens local files. On an object store a file is written by the store's own requests, and on S3
pyarrow reads it. All other files are fsspec's; the tasks of a process share its client, as fsspec does
it. What fsspec would take for another name is refused before anything is written.
"""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO, cast

from ray_committer.errors import PathError, StoreRefusedError, mark
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.parts import AppendedFile
from ray_committer.stores.registry import fsspec_options, fsspec_url

_PART_BYTES = 8 * 1024 * 1024
_PLAIN = re.compile(r"[A-Za-z0-9_\-./=%+,~ ]*")
"""Names that no client of fsspec takes for others, so that none is imported to ask."""
_VERSION = "?versionid="
"""What adlfs takes for the end of a name."""


def open_output(store: StoreOperations, path: str) -> BinaryIO:
    """Create `path` and return it open for writing; a local file must not exist. `PathError` if it would
    get another name; `StoreRefusedError` if fsspec cannot open such a store."""
    if store.spec.scheme == "file":
        return io.BufferedWriter(_NamedFile(path, "xb"))
    if store.has(StoreOperations.begin_file):
        return cast("BinaryIO", AppendedFile(store, path))
    return _fsspec_file(store.spec, path, "write", "wb")


class _NamedFile(io.FileIO):
    """A file whose errors name it: Python's do not if a disk is full."""

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
    return _fsspec_file(spec, path, "read", "rb")


def _fsspec_file(spec: StoreSpec, path: str, action: str, mode: str) -> BinaryIO:
    system = file_system(spec, action)
    fsspec_name(system, spec, path)
    opened: Any = system.open(fsspec_url(spec, path), mode)
    return cast("BinaryIO", opened)


def fsspec_name(system: Any, spec: StoreSpec, path: str) -> str:
    """Return the name by which a file system of fsspec, or its class, knows `path`; `PathError` if it
    takes the name for another one."""
    name: str = system._strip_protocol(fsspec_url(spec, path))
    if not f"/{name}".endswith(path) or (spec.scheme == "abfs" and _VERSION in path):
        raise PathError(
            f"{mark(path)}: fsspec, through which it is opened, takes this name for another one",
            "use a name without ? and #",
        )
    return name


def writable_url(store: StoreOperations, path: str) -> str:
    """Return the name of `path` for programs that use fsspec; `PathError` if they would misread it."""
    spec = store.spec
    if spec.scheme != "file" and not _PLAIN.fullmatch(path):
        from fsspec import get_filesystem_class

        try:
            fsspec_name(get_filesystem_class(spec.scheme), spec, path)
        except (ImportError, ValueError) as e:
            if isinstance(e, PathError):
                raise
    return fsspec_url(spec, path)


def copy_file(store: StoreOperations, source: str, dest: str) -> int:
    """Copy a file to a new one, a part at a time; return how many bytes were copied."""
    copied = 0
    with open_input(store.spec, source) as read, open_output(store, dest) as written:
        while part := read.read(_PART_BYTES):
            written.write(part)
            copied += len(part)
    return copied


def file_system(spec: StoreSpec, action: str) -> Any:
    """Return fsspec's file system for a store; `StoreRefusedError` if it is not installed here. `action`
    says in the error what cannot be done."""
    from fsspec.core import url_to_fs  # slow to import, and not needed for local files

    try:
        if spec.scheme == "gs":  # the class that fsspec knows asks for the layout by gRPC
            from gcsfs.core import GCSFileSystem

            return GCSFileSystem(**fsspec_options(spec))
        fs, _ = url_to_fs(f"{spec.scheme}://{spec.authority}/", **fsspec_options(spec))
    except (ImportError, TypeError, ValueError) as e:
        raise StoreRefusedError(
            without_password(
                f"{spec.scheme}://{spec.authority}: fsspec cannot {action} there from this node: {e}"
            ),
            f"install what it needs on all nodes, or {action} in another way",
        ) from e
    return fs
