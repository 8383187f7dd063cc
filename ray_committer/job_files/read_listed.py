"""Read a manifest that was listed, if the listing shows a regular file of a size that one can have."""

from __future__ import annotations

from ray_committer.errors import ManifestError
from ray_committer.stores.base import FileStatus, StoreOperations

MOST_BYTES = 256 << 20
"""The longest manifest that is read: that of one task with about a million files."""


def read_listed(store: StoreOperations, status: FileStatus) -> bytes:
    """The content of a listed manifest; errors as `check_listed`."""
    check_listed(status)
    return store.read(status.path)


def check_listed(status: FileStatus) -> None:
    """`ManifestError` for what cannot be a manifest, by its listing; it is not read."""
    what = _what(status)
    if what is not None:
        raise ManifestError(
            f"{status.path}: is {what}, not a task manifest", "run the task again, or move it away"
        )


def _what(status: FileStatus) -> str | None:
    if status.is_link:
        return "a symbolic link"
    if status.is_directory:
        return "a directory"
    if status.is_special:
        return "not a regular file"
    if status.size > MOST_BYTES:
        return f"{status.size} bytes long"
    return None if status.size else "empty"
