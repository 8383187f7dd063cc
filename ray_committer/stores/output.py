"""Open the files that tasks write and readers read; all other work on a store is small requests.

A commit never writes data, so a store has no operation for it. Python opens local files, pyarrow those
on S3, fsspec any other. The tasks of a process share an fsspec client, as fsspec does it.
"""

from __future__ import annotations

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
        return open(path, "xb")
    opened: Any = file_system(spec, "write").open(fsspec_url(spec, path), "wb")
    return cast("BinaryIO", opened)


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
