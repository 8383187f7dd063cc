"""Replace old data: list it first, and remove it only after every new file is in place.

Spark deletes first, so a failed job loses the old data. Here only what the record names is removed, in
the way of `places.old_files`: never a file that has changed since, nor a directory that is not empty.
What cannot be removed does not stop the removal of other files, and is named at the end.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import CommitStateUnknownError, mark, some_of
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.places.choose import old_files_of
from ray_committer.places.old_files import Old, is_unchanged, replaced_file
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.old_files_aside import own_name, place_aside
from ray_committer.stores.base import StoreOperations
from ray_committer.work.entries import STAYS
from ray_committer.work.worker import Worker

_IN_USE = (errno.EACCES, errno.EPERM, errno.EBUSY)
"""The errors of a directory that this user cannot remove, or that is a mount point."""

Group = tuple[str, tuple[Old, ...]]
Left = tuple[str, str]
"""The path of an old file that cannot be removed, and why."""
Remove = Callable[[StoreOperations, Old], bool]
"""Remove an old file; False if it was not there. ``FileExistsError`` if it has changed."""


@dataclass(frozen=True, slots=True)
class Removal:
    """How many old files were `removed`; the paths of those that have `changed` since they were listed;
    and those that are `left`, because they cannot be removed."""

    removed: int = 0
    changed: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()

    def __add__(self, other: Removal) -> Removal:
        return Removal(
            self.removed + other.removed, self.changed + other.changed, self.left + other.left
        )


def remove_replaced_files(
    context: JobContext, record: CommitRecord, *, are_listed: bool = False
) -> Removal:
    """Remove the old files that `record` names, after the job was sealed; idempotent. They are listed
    first, unless they `are_listed`: this run has recorded them."""
    groups = grouped(
        (file, place_aside(context.job, record.nonce, number))
        for number, file in enumerate(record.replaced)
    )
    removal = remove_files(context, _remove, groups, are_listed=are_listed)
    for path in removal.changed:
        context.note_changed(path)
    return removal


def refuse_left(context: JobContext, record: CommitRecord, left: Mapping[str, str]) -> None:
    """`CommitStateUnknownError`, with the command that goes on, if old files could not be removed."""
    if not left:
        return
    but = undo = ""
    if any(file.path in left for file in record.overwritten):
        but = " but those of the same names"
    if record.is_undoable:
        undo = f", or give the commit up with: {abort_command(context.store, context.job, undo=True)}"
    named = some_of([f"{mark(path)}: {why}" for path, why in sorted(left.items())])
    raise CommitStateUnknownError(
        f"{named}: {len(left)} old files could not be removed, so readers see their rows beside those "
        f"of the job; all new files{but} are in place, and all other old files are gone",
        f"nothing is lost: remove these files, or make that possible, and finish the commit with: "
        f"{commit_command(context.store, context.job)}{undo}",
    )


def remove_emptied_directories(context: JobContext, record: CommitRecord) -> None:
    """Remove the old directories that `record` names, if they are empty now; idempotent. The deepest go
    first. A directory that cannot be removed is kept, and a notice names it."""
    levels: dict[int, list[str]] = defaultdict(list)
    for path in record.emptied:
        levels[path.count("/")].append(path)
    # The deepest first: a directory is empty only when those in it are gone.
    for depth in sorted(levels, reverse=True):
        for kept in context.run_batches(_remove_directories, levels[depth]):
            for text in kept:
                context.notice(text)


def remove_files(
    context: JobContext, remove: Remove, groups: Sequence[Group], *, are_listed: bool = False
) -> Removal:
    """Remove files, past those that cannot be removed; list them first, unless they `are_listed`."""
    work = partial(_remove_from_directories, remove=remove, are_listed=are_listed)
    return sum(context.run_batches(work, groups), Removal())


def grouped(olds: Iterable[Old]) -> list[Group]:
    """Old files by directory, each with its path aside."""
    groups: dict[str, list[Old]] = defaultdict(list)
    for file, place in olds:
        groups[parent(file.path)].append((file, place))
    return [(path, tuple(files)) for path, files in groups.items()]


def _remove_directories(worker: Worker, directories: tuple[str, ...]) -> list[str]:
    """Work: remove some directories if they are empty; return which cannot be removed, and why."""
    texts = worker.map(partial(_remove_directory, worker.store), directories)
    return [text for text in texts if text is not None]


def _remove_directory(store: StoreOperations, path: str) -> str | None:
    """Remove a directory if it is empty; return why that is not possible, in words."""
    try:
        store.remove_empty_directory(path)
    except NotADirectoryError:  # a file of another writer is there now
        return None
    except OSError as e:
        if e.errno not in _IN_USE:
            raise
        return (
            f"{mark(path)}: this old directory is kept, because it could not be removed ({e.strerror})"
        )
    return None


def _remove_from_directories(
    worker: Worker, groups: tuple[Group, ...], *, remove: Remove, are_listed: bool
) -> Removal:
    if are_listed:
        olds = (old for _, files in groups for old in files if not worker.cancelled.is_set())
        return sum(worker.map(partial(_try_to_remove, worker.store, remove), olds), Removal())
    removal = Removal()
    for unchanged, gone_already in worker.map(partial(_still_old, worker.store), groups):
        if not worker.cancelled.is_set():
            ends = worker.map(partial(_try_to_remove, worker.store, remove), unchanged)
            removal += sum(ends, gone_already)
    return removal


def _try_to_remove(store: StoreOperations, remove: Remove, old: Old) -> Removal:
    path = old[0].path
    try:
        return Removal(removed=int(remove(store, old)))
    except (FileExistsError, IsADirectoryError):  # some stores answer so if nothing is there
        return Removal(changed=(path,) if store.get_status(path) is not None else ())
    except OSError as e:
        if e.errno not in STAYS:
            raise
        return Removal(left=((path, e.strerror or str(e)),))


def _remove(store: StoreOperations, old: Old) -> bool:
    file, place = old
    return old_files_of(store).remove(
        file.path, file.version, lambda: put_old_file_aside(store, file, own_name(place))
    )


def put_old_file_aside(store: StoreOperations, file: ReplacedFile, place: str) -> bool:
    """Rename an old file aside; False if it is not there, ``PermissionError`` if the place is not."""
    try:
        old_files_of(store).take(file.path, place, file.version)
    except FileNotFoundError as e:
        if not is_unchanged(store, file):
            return False
        what = f"the directory to which it is moved is not there: {parent(place)}"
        raise PermissionError(errno.EACCES, what, file.path) from e
    return True


def _still_old(store: StoreOperations, group: Group) -> tuple[list[Old], Removal]:
    """The old files that are still as recorded, and what became of the others, from one listing."""
    directory, files = group
    try:
        present = {status.path: replaced_file(status) for status in store.list_anew(directory)}
    except FileNotFoundError:
        return [], Removal()
    except PermissionError as e:
        return [], Removal(left=tuple((file.path, e.strerror or str(e)) for file, _ in files))
    unchanged = [old for old in files if present.get(old[0].path) == old[0]]
    changed = [file.path for file, _ in files if file.path in present and present[file.path] != file]
    return unchanged, Removal(changed=tuple(changed))
