"""List the manifests of a job's tasks, and read those that a listing shows to be regular files."""

from __future__ import annotations

from collections.abc import Iterable

from ray_committer.errors import ManifestError, mark
from ray_committer.places.choose import places_of
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt
from ray_committer.stores.base import FileStatus, StoreOperations


def list_manifest_files(store: StoreOperations, job: JobAttempt) -> list[FileStatus]:
    """The task manifests of a job, frozen or not; ``FileNotFoundError`` if there are none."""
    directories = places_of(store).manifests(job)
    for directory in directories:
        try:
            listed = store.list_status(directory)
        except FileNotFoundError:
            # The first is empty after the freeze: only the last one decides that there are none.
            if directory == directories[-1]:
                raise
        else:
            return manifests_in(listed)
    return []


def manifests_in(listed: Iterable[FileStatus]) -> list[FileStatus]:
    """The manifests among some listed files."""
    return [status for status in listed if status.name.endswith(MANIFEST_SUFFIX)]


def estimate_files(store: StoreOperations, job: JobAttempt) -> int:
    """Estimate the files of a job from the sizes of its manifests and the content of the largest."""
    try:
        listed = list_manifest_files(store, job)
        # The largest, since a small one has more overhead per file: the estimate should not be too low.
        largest = max(listed, key=lambda status: status.size, default=None)
        if largest is None or not largest.size:
            return 0
        manifest = decode_manifest(read_listed(store, largest), largest.path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return round(sum(status.size for status in listed) / largest.size * len(manifest.files))


MOST_BYTES = 256 << 20
"""The longest manifest that is read: one task with about a million files has such a one."""


def read_listed(store: StoreOperations, status: FileStatus) -> bytes:
    """The content of a listed manifest; errors as `check_listed`."""
    check_listed(status)
    return store.read(status.path)


def check_listed(status: FileStatus) -> None:
    """`ManifestError` for what cannot be a manifest, by its listing; it is not read."""
    what = _what(status)
    if what is not None:
        raise ManifestError(
            f"{mark(status.path)}: is {what}, not a task manifest", "run the task again, or move it away"
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
