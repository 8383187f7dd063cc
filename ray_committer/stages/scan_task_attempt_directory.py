"""List the files and directories that a task attempt wrote, several directories in parallel.

Hadoop's stage lists one directory after another and requests the status of every destination. Neither
is needed. Source: Hadoop TaskAttemptScanDirectoryStage.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from ray_committer.errors import TaskCommitError
from ray_committer.protocol.manifest import DirEntry, FileEntry
from ray_committer.protocol.uri import Location, format_uri
from ray_committer.stores.base import FileStatus, StoreOperations

SCAN_THREADS = 8


def scan_task_attempt_directory(
    store: StoreOperations, directory: str, destination: str
) -> tuple[list[FileEntry], list[DirEntry]]:
    """Return an entry for each file below `directory`, and an entry for each directory below it.

    File entries contain the modification time, which identifies a renamed file after a crash.
    """
    files: list[FileEntry] = []
    directories: list[DirEntry] = []
    for level, status in _walk(store, directory):
        if status.is_directory and status.is_link:
            raise TaskCommitError(
                f"{status.path}: is a symbolic link to a directory", "write the files themselves"
            )
        dest = _uri(store, destination + status.path.removeprefix(directory))
        if status.is_directory:
            directories.append(DirEntry(dest, l=level))
        else:
            source = _uri(store, status.path)
            files.append(_entry(source, dest, status))
    return files, directories


def _walk(store: StoreOperations, root: str) -> Iterator[tuple[int, FileStatus]]:
    level, directories = 0, [root]
    with ThreadPoolExecutor(SCAN_THREADS, thread_name_prefix="ray-committer-scan") as pool:
        while directories:
            level += 1
            try:
                listings = list(pool.map(store.list_status, directories))
            except FileNotFoundError as e:
                raise TaskCommitError(
                    f"{root}: is gone, so this task attempt cannot be committed", "run the task again"
                ) from e
            found = [status for listing in listings for status in listing]
            yield from ((level, status) for status in sorted(found, key=_path))
            directories = [status.path for status in found if status.is_directory and not status.is_link]


def _entry(source: str, dest: str, status: FileStatus) -> FileEntry:
    return FileEntry(s=source, d=dest, z=status.size, e=status.etag, m=status.modified_milliseconds)


def _path(status: FileStatus) -> str:
    return status.path


def _uri(store: StoreOperations, path: str) -> str:
    return format_uri(Location(store.spec.scheme, store.spec.authority, path))
