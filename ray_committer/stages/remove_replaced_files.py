"""Replace old data: list it first, and remove it only after every new file is in place.

Spark deletes first, so a failed job loses the old data. This module removes only files that the commit
record names, never a directory, and never a file that has changed since it was listed.

A process may sleep between its look at an old file and the removal. In the meantime, others may end the
job, and a later job may write a file of that name. If files have versions, a deletion names the version.
Otherwise an old file is renamed aside, to a directory that is deleted before the job is committed. A
process that wakes up after that finds no such directory and moves nothing.

Files in the place of new directories are put aside on every store, before any directory is made, and
are deleted only there. Their job can be undone, and a process that wakes up after that must leave them.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import CommitConflictError, CommitStateUnknownError, PreflightError, some_of
from ray_committer.job_files.find_job import refuse_links
from ray_committer.job_files.settle import settle
from ray_committer.protocol.paths import SUCCESS, TEMPORARY, ancestors, join, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import (
    FileStatus,
    StoreOperations,
    Versions,
    delete_version,
    list_anew,
    move_directory,
    set_aside,
)
from ray_committer.work.batches import batches
from ray_committer.work.worker import Worker

SPARK_STAGING = ".spark-staging-"
_NOT_THERE = (errno.ENOENT, errno.EXDEV)
"""The errors that show that a file cannot be put aside; all others are failures of the store."""
FILES_ASIDE = 10_000
"""The most old files in one directory aside: one request deletes it, and it must end in time."""

PUT_BACK_ROUNDS = 10
"""The rounds in which directories aside are emptied, while processes that wake up add files."""

Old = tuple[ReplacedFile, str]
"""An old file and its path aside."""
Group = tuple[str, tuple[Old, ...]]
Remove = Callable[[StoreOperations, Old], bool]
"""Remove an old file; False if it was not there. ``FileExistsError`` if it has changed."""


@dataclass(frozen=True, slots=True)
class OldData:
    """The data below the roots that a job replaces.

    `files` and `directories` are the old data, and `destinations` those of other jobs set up there.
    `no_directories` are roots that are not directories, because a file is in their place or above it.
    """

    files: tuple[ReplacedFile, ...] = ()
    destinations: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    no_directories: tuple[str, ...] = ()


def list_replaced_files(context: JobContext, roots: Sequence[str]) -> OldData:
    """List the files below `roots`, one level at a time; a root that does not exist has none.

    ``_SUCCESS`` and the files of running jobs (``_temporary``, Spark's staging) are left out.
    """
    destination = context.job.destination
    for root in roots:
        refuse_links(context.store, {root, *ancestors(root, destination)} - {destination})
    found: dict[str, ReplacedFile] = {}
    destinations: list[str] = []
    directories: list[str] = []
    no_directories: list[str] = []
    level = list(dict.fromkeys(roots))
    while level:
        below: list[str] = []
        work = context.until_cancelled(batches(context.executor, level))
        for statuses, files in context.executor.run(_list_directories, work):
            no_directories += files
            for status in statuses:
                if status.name == TEMPORARY:
                    destinations.append(parent(status.path))
                    continue
                if status.is_directory and status.is_link:
                    raise PreflightError(
                        f"{status.path}: is a symbolic link to a directory, and the data behind it may "
                        f"belong to others",
                        "replace the link or write elsewhere",
                    )
                if status.is_directory:
                    below.append(status.path)
                else:
                    found[_recordable(status.path)] = replaced_file(status)
        directories += below
        level = below
    context.check_cancelled()
    return OldData(
        tuple(found[path] for path in sorted(found)),
        tuple(sorted(destinations)),
        tuple(directories),
        tuple(no_directories),
    )


def _recordable(path: str) -> str:
    """`path`; `PreflightError` if the record cannot hold it."""
    try:
        path.encode()
    except UnicodeEncodeError as e:
        shown = path.encode(errors="backslashreplace").decode()
        raise PreflightError(
            f"{shown}: the name of this old file is not UTF-8, so the commit record cannot hold it",
            "nothing was changed: rename or remove that file, and run the same command",
        ) from e
    return path


def make_places_aside(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    """Make the directories aside for replaced files, if the store needs them, before the state with
    this `nonce` exists."""
    if _sets_aside(context.store):
        _make_places(context, files, nonce)


def make_places_of_blocking(context: JobContext, record: CommitRecord) -> None:
    """Make the directories aside for blocking files, before the job is recorded."""
    _make_places(context, record.blocking, record.nonce)


def remove_replaced_files(context: JobContext, record: CommitRecord, nonce: str) -> int:
    """Remove the old files that `record` names, after the job was sealed under this `nonce`; idempotent.

    Returns the number of files that this call removed.
    """
    removed, kept = _remove_files(context, _remove, record.replaced, nonce)
    for path in kept:
        context.notice(f"{path}: was to be replaced but has changed since then; it was kept")
    return removed


def remove_blocking_files(context: JobContext, record: CommitRecord) -> None:
    """Remove the files in the place of new directories, before any directory is made; idempotent.

    A notice names the removed files. A file that has changed since it was recorded is kept, and no
    directory can be made there. `CommitConflictError` if a file cannot be put aside.
    """
    removed, kept = _remove_files(context, _remove_blocking, record.blocking, record.nonce)
    groups = context.until_cancelled(batches(context.executor, _groups_of(context, record)))
    for paths in context.executor.run(_move_strangers_back, groups):  # also those of a dead run
        kept += paths
    context.check_cancelled()
    if removed:
        gone = [file.path for file in record.blocking if file.path not in kept]
        context.notice(f"{some_of(gone)}: removed, because directories had to go there")
    _remove_places(context, record.blocking, record.nonce)


def put_back_blocking_files(context: JobContext, record: CommitRecord) -> None:
    """Move the blocking files back from their places aside, and remove these places; idempotent.

    A notice names the files that are gone, or whose paths are taken now. Until a directory aside is
    gone, a process that wakes up may put a file there again, so only empty directories are removed.
    """
    aside = context.job.aside(record.nonce)
    olds = [old for _, group in _groups_of(context, record) for old in group]
    places = _directories_aside(record.blocking, aside)
    for _ in range(PUT_BACK_ROUNDS):
        for path in filter(None, context.at_once(partial(_put_back, context.store), olds)):
            context.notice_once(
                f"{path}: was removed because a directory had to go there; it is not put back, because "
                f"it is gone or something else is in its place"
            )
        for place in places:
            context.store.remove_empty_directory(place)
        if not any(context.store.get_status(place) for place in places):
            return
    raise CommitStateUnknownError(
        f"{aside}: another process keeps putting files there",
        "the commit is half undone, so run the same command again",
    )


def remove_places_aside(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    """Delete the directories aside, so that a late process finds none; idempotent."""
    if _sets_aside(context.store):
        _remove_places(context, files, nonce)


def _make_places(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    context.at_once(context.store.mkdirs, _directories_aside(files, context.job.aside(nonce)))


def _remove_places(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    places = _directories_aside(files, context.job.aside(nonce))
    work = context.until_cancelled(batches(context.executor, places))
    for _ in context.executor.run(_delete_directories, work):
        pass
    context.check_cancelled()


def _remove_files(
    context: JobContext, remove: Remove, files: Sequence[ReplacedFile], nonce: str
) -> tuple[int, list[str]]:
    """Remove files; return how many were there, and those that have changed since they were listed."""
    removed, changed = 0, list[str]()
    groups = _groups(files, context.job.aside(nonce))
    items = context.until_cancelled(batches(context.executor, groups))
    for count, kept in context.executor.run(partial(_remove_from_directories, remove=remove), items):
        removed += count
        changed += kept
    context.check_cancelled()
    return removed, changed


def _groups(files: Sequence[ReplacedFile], aside: str) -> list[Group]:
    """The files by directory, each with its path aside."""
    groups: dict[str, list[Old]] = defaultdict(list)
    for number, file in enumerate(files):
        groups[parent(file.path)].append((file, join(_directory_aside(aside, number), str(number))))
    return [(path, tuple(files)) for path, files in groups.items()]


def _groups_of(context: JobContext, record: CommitRecord) -> list[Group]:
    """The blocking files by directory, each with its path aside."""
    return _groups(record.blocking, context.job.aside(record.nonce))


def _directories_aside(files: Sequence[ReplacedFile], aside: str) -> list[str]:
    firsts = range(0, len(files), FILES_ASIDE)
    return [_directory_aside(aside, first) for first in firsts]


def _directory_aside(aside: str, number: int) -> str:
    return join(aside, str(number // FILES_ASIDE))


def _sets_aside(store: StoreOperations) -> bool:
    return store.capabilities.sets_aside and store.capabilities.versions is Versions.NONE


def _list_directories(
    worker: Worker, directories: tuple[str, ...]
) -> tuple[list[FileStatus], list[str]]:
    """Work: list some directories of old data; also return those that are not directories."""
    no_directories: list[str] = []  # appending one element is thread-safe
    listed = worker.map(partial(_list_directory, worker.store, no_directories), directories)
    return [status for statuses in listed for status in statuses], no_directories


def _list_directory(
    store: StoreOperations, no_directories: list[str], directory: str
) -> list[FileStatus]:
    try:
        statuses = list_anew(store, directory)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        no_directories.append(directory)
        return []
    return [
        status
        for status in statuses
        if status.name != SUCCESS and not status.name.startswith(SPARK_STAGING)
    ]


def _delete_directories(worker: Worker, directories: tuple[str, ...]) -> None:
    """Work: delete some directories aside and the files in them."""
    for _ in worker.map(worker.store.delete_directory, directories):
        pass


def _remove_from_directories(
    worker: Worker, groups: tuple[Group, ...], *, remove: Remove
) -> tuple[int, list[str]]:
    """Work: remove the old files of some directories."""
    removed, kept = 0, list[str]()
    for same, changed in worker.map(partial(_still_old, worker.store), groups):
        if not worker.cancelled.is_set():
            ends = list(worker.map(partial(_try_to_remove, worker.store, remove), same))
            removed += sum(is_removed for is_removed, _ in ends)
            kept += [*changed, *(path for _, path in ends if path is not None)]
    return removed, kept


def _try_to_remove(store: StoreOperations, remove: Remove, old: Old) -> tuple[bool, str | None]:
    """Remove a file: whether it was there, and its path if it has changed since it was listed."""
    try:
        return remove(store, old), None
    except (FileExistsError, IsADirectoryError):
        return False, old[0].path


def _remove(store: StoreOperations, old: Old) -> bool:
    """Remove a replaced file in the safest way that the store offers.

    A file that cannot be put aside is deleted where it is, if it is there unchanged. That happens if the
    file is on another file system than the job's directory, or in another encryption zone, or if the
    directory aside was deleted.
    """
    file, place = old
    if store.capabilities.versions is not Versions.NONE:
        return delete_version(store, file.path, file.version)
    if not _sets_aside(store):
        return store.delete_file(file.path)
    try:
        _set_aside(store, file, place)
    except OSError as e:
        if e.errno not in _NOT_THERE:
            raise
        return _is_unchanged(store, file) and store.delete_file(file.path)
    return True


def _remove_blocking(store: StoreOperations, old: Old) -> bool:
    """Put aside a file in the place of a new directory."""
    file, place = old
    try:
        _set_aside(store, file, place)
    except OSError as e:
        if e.errno not in _NOT_THERE:
            raise
        if not _is_unchanged(store, file):
            return False
        raise CommitConflictError(
            f"{file.path}: is in the way and could not be put aside ({e.strerror}), so it was not "
            f"deleted",
            "move it away and run the same command",
        ) from e
    return True


def _move_strangers_back(worker: Worker, groups: tuple[Group, ...]) -> list[str]:
    """Work: move back the files aside that are not the recorded ones; return their paths."""
    olds = [old for _, group in groups for old in group]
    found = worker.map(partial(_move_stranger_back, worker.store), olds)
    return [path for path in found if path is not None]


def _move_stranger_back(store: StoreOperations, old: Old) -> str | None:
    file, place = old
    aside = store.get_status(place)
    if aside is None or _is_same(store, file, aside):
        return None
    _move_back(store, place, file.path, aside)
    return file.path


def _move_back(store: StoreOperations, place: str, path: str, aside: FileStatus) -> None:
    if aside.is_directory:
        move_directory(store, place, path)
    else:
        _move(store, place, path)


def _put_back(store: StoreOperations, old: Old) -> str | None:
    """Move a file back from its path aside; return its path if it is gone or its path is taken."""
    file, place = old
    aside = store.get_status(place)
    if aside is None:  # it was not put aside, or is gone
        status = store.get_status(file.path)
        return file.path if status is None or status.is_directory else None
    try:
        _move_back(store, place, file.path, aside)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        if not _is_same(store, file, aside):
            raise
        store.delete_file(place)
        return file.path
    return None


def _is_unchanged(store: StoreOperations, file: ReplacedFile) -> bool:
    """Whether a file is there unchanged; ``FileExistsError`` if it has changed."""
    status = store.get_status(file.path)
    if status is not None and replaced_file(status) != file:
        raise FileExistsError(errno.EEXIST, "has changed", file.path)
    return status is not None


def _is_same(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether the file aside is the one that was listed, by the facts that a rename keeps."""
    if store.capabilities.versions is not Versions.NONE:  # the rename named the version
        return True
    told = (aside.is_directory, aside.size, aside.modified_milliseconds)
    return told == (False, file.size, file.modified_milliseconds)


def _set_aside(store: StoreOperations, file: ReplacedFile, place: str) -> None:
    """Rename a file aside; ``FileNotFoundError`` if the file or the directory aside is missing."""
    try:
        _rename_aside(store, file, place)
    except FileExistsError:  # after a power cut, the file can be back beside the renamed one
        if store.get_status(place) is None:
            raise
        store.delete_file(place)
        _rename_aside(store, file, place)


def _rename_aside(store: StoreOperations, file: ReplacedFile, place: str) -> None:
    if _sets_aside(store):
        settle(lambda: set_aside(store, file.path, place), lambda: store.get_status(file.path) is None)
    else:
        _move(store, file.path, place, file.version)


def _move(store: StoreOperations, source: str, dest: str, version: str | None = None) -> None:
    settle(lambda: store.rename(source, dest, version), lambda: store.get_status(source) is None)


def _still_old(store: StoreOperations, group: Group) -> tuple[list[Old], list[str]]:
    """The old files that are still as recorded, and those that have changed, from one listing."""
    directory, files = group
    try:
        now = {status.path: replaced_file(status) for status in list_anew(store, directory)}
    except FileNotFoundError:
        return [], []
    same = [old for old in files if now.get(old[0].path) == old[0]]
    changed = [file.path for file, _ in files if file.path in now and now[file.path] != file]
    return same, changed


def replaced_file(status: FileStatus) -> ReplacedFile:
    """The recorded facts of a listed file."""
    return ReplacedFile(
        status.path, status.size, status.modified_milliseconds, status.etag, status.version
    )
