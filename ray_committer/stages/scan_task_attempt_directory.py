"""List the files and directories that a task attempt wrote, several directories in parallel.

Hadoop's stage lists one directory after another and requests the status of every destination. Neither
is needed. Source: Hadoop TaskAttemptScanDirectoryStage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from ray_committer.errors import TaskCommitError, mark
from ray_committer.protocol.hidden_names import is_of_file_system, is_passed_over
from ray_committer.protocol.manifest import DirEntry, FileEntry
from ray_committer.protocol.paths import ancestors, is_inside
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.entries import uri_of


@dataclass(frozen=True, slots=True)
class Scan:
    """An entry for each file of a task attempt and for each directory of these, and the relative paths
    of what is below the attempt's own directory but not output."""

    files: list[FileEntry] = field(default_factory=list)
    directories: list[DirEntry] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)

    def plus(self, other: Scan) -> Scan:
        """The entries of both, each directory once."""
        directories = dict.fromkeys((*self.directories, *other.directories))
        return Scan(self.files + other.files, list(directories), self.passed_over + other.passed_over)


def scan_task_attempt_directory(
    store: StoreOperations, directory: str, destination: str, named: Collection[str] = ()
) -> Scan:
    """Return what is below `directory`. `named` are the paths there that the task has asked for. A file
    that was not asked for by its name is passed over if its name is hidden, or if it is no regular file.
    In a directory that was asked for, hidden names are output, but for those that file systems make.
    File entries contain the modification time, which identifies a renamed file after a crash."""
    scan, entered = Scan(), [directory]
    level = 0
    while entered:
        level += 1
        statuses, entered = _listed(store, directory, entered), []
        for status in statuses:
            if not _is_output(status, directory, named):
                scan.passed_over.append(status.path.removeprefix(f"{directory}/"))
                continue
            dest = uri_of(store.spec, destination + status.path.removeprefix(directory))
            if status.is_directory:
                entered.append(status.path)
                scan.directories.append(DirEntry(dest, l=level))
            else:
                scan.files.append(_entry(uri_of(store.spec, status.path), dest, status))
    return scan


def look_at_staged_files(store: StoreOperations, places: Mapping[str, str], destination: str) -> Scan:
    """Return entries for staged files, whose `places` at the destination are given by their paths. A
    listing would also show the files of other attempts, so each file is looked at by its name."""
    paths = sorted(places)
    files = [
        _staged_entry(store, path, places[path], status)
        for path, status in zip(paths, at_once(store, store.get_status, paths), strict=True)
    ]
    above = {path for place in places.values() for path in (*ancestors(place, destination),)}
    directories = [
        DirEntry(uri_of(store.spec, path), l=path.removeprefix(destination).count("/"))
        for path in sorted(above)
    ]
    return Scan(files, directories)


def _staged_entry(store: StoreOperations, path: str, place: str, status: FileStatus | None) -> FileEntry:
    if status is None:
        raise TaskCommitError(
            f"{mark(path)}: is gone, so this task attempt cannot be committed",
            "run the task again, unless the commit of its job has begun: then no task can be committed",
        )
    if status.is_directory or status.is_special:
        raise TaskCommitError(f"{mark(path)}: is not a regular file", "run the task again")
    return _entry(uri_of(store.spec, path), uri_of(store.spec, place), status)


def _listed(store: StoreOperations, root: str, directories: list[str]) -> list[FileStatus]:
    try:
        listings = at_once(store, store.list_status, directories)
    except FileNotFoundError as e:
        raise TaskCommitError(
            f"{mark(root)}: is gone, so this task attempt cannot be committed", "run the task again"
        ) from e
    # Sorted, so that equal output gives equal manifests on every store and in every run.
    return sorted((status for listing in listings for status in listing), key=attrgetter("path"))


def _is_output(status: FileStatus, root: str, named: Collection[str]) -> bool:
    """Whether a file or directory is output; `TaskCommitError` if it should be, but cannot be."""
    path = status.path
    is_named = path in named
    if not is_named and not _was_asked_for(path, root, named):
        return False
    if status.is_directory and status.is_link:
        raise TaskCommitError(
            f"{mark(path)}: is a symbolic link to a directory", "write the files themselves"
        )
    if status.is_special and is_named:
        raise TaskCommitError(f"{mark(path)}: is not a regular file", "write a file there")
    return not status.is_special


def _was_asked_for(path: str, root: str, named: Collection[str]) -> bool:
    """Whether the task has asked for what is at `path`, by a plain name, or by a name above or below."""
    if not is_passed_over(path.removeprefix(f"{root}/")):
        return True
    if any(is_inside(wanted, path) for wanted in named):
        return True
    return not is_of_file_system(path.rpartition("/")[2]) and any(
        above in named for above in ancestors(path, root)
    )


def _entry(source: str, dest: str, status: FileStatus) -> FileEntry:
    return FileEntry(s=source, d=dest, z=status.size, e=status.etag, m=status.modified_milliseconds)
