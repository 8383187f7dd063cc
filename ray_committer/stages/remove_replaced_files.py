"""Replace old data: list it first, and remove it only after every new file is in place.

Spark deletes first, so a failed job loses the old data. This module removes only what the commit record
names, never a file that has changed since it was listed, and never a directory that is not empty.

A process may sleep between its look at an old file and the removal. In the meantime, others may end the
job, and a later job may write a file of that name. If files have versions, a deletion names the version.
Otherwise an old file is renamed aside, to a directory that is deleted before the job is committed. A
process that wakes up after that finds no such directory and moves nothing.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.aside import sets_aside
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_files import (
    NOT_THERE,
    Old,
    is_unchanged,
    put_aside,
    replaced_file,
)
from ray_committer.stores.base import (
    StoreOperations,
    Versions,
    delete_version,
    list_anew,
)
from ray_committer.work.batches import batches
from ray_committer.work.worker import Worker

_IN_USE = (errno.EACCES, errno.EPERM, errno.EBUSY)
"""The errors of a directory that this user cannot remove, or that is a mount point."""

FILES_ASIDE = 10_000
"""The most old files in one directory aside: one request deletes it, and it must end in time."""

Group = tuple[str, tuple[Old, ...]]
Remove = Callable[[StoreOperations, Old], bool]
"""Remove an old file; False if it was not there. ``FileExistsError`` if it has changed."""


def make_places_aside(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    """Make the directories aside for replaced files, if the store needs them, before the state with
    this `nonce` exists."""
    if sets_aside(context.store):
        context.at_once(context.store.mkdirs, _directories_aside(files, context.job.aside(nonce)))


def remove_replaced_files(context: JobContext, record: CommitRecord, nonce: str) -> int:
    """Remove the old files that `record` names, after the job was sealed under this `nonce`; idempotent.

    Returns the number of files that this call removed.
    """
    aside = context.job.aside(nonce)
    groups = grouped(
        (file, join(_directory_aside(aside, number), str(number)))
        for number, file in enumerate(record.replaced)
    )
    removed, kept = remove_files(context, _remove, groups)
    for path in kept:
        context.note_changed(path)
    return removed


def remove_emptied_directories(context: JobContext, record: CommitRecord) -> None:
    """Remove the old directories that `record` names, if they are empty now; idempotent.

    The deepest go first. A directory that cannot be removed is kept, and a notice names it.
    """
    levels: dict[int, list[str]] = defaultdict(list)
    for path in record.emptied:
        levels[path.count("/")].append(path)
    for depth in sorted(levels, reverse=True):
        groups = context.until_cancelled(batches(context.executor, levels[depth]))
        for kept in context.executor.run(_remove_directories, groups):
            for text in kept:
                context.notice(text)
        context.check_cancelled()


def remove_places_aside(context: JobContext, files: Sequence[ReplacedFile], nonce: str) -> None:
    """Delete the directories aside, so that a late process finds none; idempotent."""
    if not sets_aside(context.store):
        return
    places = _directories_aside(files, context.job.aside(nonce))
    work = context.until_cancelled(batches(context.executor, places))
    for _ in context.executor.run(_delete_directories, work):
        pass
    context.check_cancelled()


def remove_files(context: JobContext, remove: Remove, groups: Sequence[Group]) -> tuple[int, list[str]]:
    """Remove files; return how many were there, and those that have changed since they were listed."""
    removed, changed = 0, list[str]()
    items = context.until_cancelled(batches(context.executor, groups))
    for count, kept in context.executor.run(partial(_remove_from_directories, remove=remove), items):
        removed += count
        changed += kept
    context.check_cancelled()
    return removed, changed


def grouped(olds: Iterable[Old]) -> list[Group]:
    """Old files by directory, each with its path aside."""
    groups: dict[str, list[Old]] = defaultdict(list)
    for file, place in olds:
        groups[parent(file.path)].append((file, place))
    return [(path, tuple(files)) for path, files in groups.items()]


def _directories_aside(files: Sequence[ReplacedFile], aside: str) -> list[str]:
    firsts = range(0, len(files), FILES_ASIDE)
    return [_directory_aside(aside, first) for first in firsts]


def _directory_aside(aside: str, number: int) -> str:
    return join(aside, str(number // FILES_ASIDE))


def _delete_directories(worker: Worker, directories: tuple[str, ...]) -> None:
    """Work: delete some directories aside and the files in them."""
    for _ in worker.map(worker.store.delete_directory, directories):
        pass


def _remove_directories(worker: Worker, directories: tuple[str, ...]) -> list[str]:
    """Work: remove some directories if they are empty; return which cannot be removed, and why."""
    found = worker.map(partial(_remove_directory, worker.store), directories)
    return [text for text in found if text is not None]


def _remove_directory(store: StoreOperations, path: str) -> str | None:
    """Remove a directory if it is empty; return why that is not possible, in words."""
    try:
        store.remove_empty_directory(path)
    except NotADirectoryError:  # a file of another writer is there now
        return None
    except OSError as e:
        if e.errno not in _IN_USE:
            raise
        return f"{path}: this old directory is kept, because it could not be removed ({e.strerror})"
    return None


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
    except (FileExistsError, IsADirectoryError):  # some stores answer so if nothing is there
        path = old[0].path
        return False, path if store.get_status(path) is not None else None


def _remove(store: StoreOperations, old: Old) -> bool:
    """Remove a replaced file in the safest way that the store offers.

    A file that cannot be put aside is deleted where it is, if it is there unchanged. That happens if the
    file is on another file system than the job's directory, or in another encryption zone, or if the
    directory aside was deleted.
    """
    file, _ = old
    if store.capabilities.versions is not Versions.NONE:
        return delete_version(store, file.path, file.version)
    if not sets_aside(store):
        return store.delete_file(file.path)
    try:
        put_aside(store, old)
    except OSError as e:
        if e.errno not in NOT_THERE:
            raise
        return is_unchanged(store, file) and store.delete_file(file.path)
    return True


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
