"""Remove the old files that an entry of a table's log names, when the job that did this is gone.

A file is removed only with proof that it is the one that the log names. One that cannot be removed is
named, and the others go. The claim is in flight until
then, so no other job of the table works there. But a process can sleep between its look at a file and
the removal, while others end the claim and a later job writes a file of that name. So a removal is
bound to the version that was there while the claim was in flight. On a store without versions it is a
rename to a directory of this claim. When all old files are gone, a file takes the place of that
directory for ever: a process that wakes up after that can neither use nor make the directory.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.limits.settle import settle
from ray_committer.places.choose import needed, old_files_of
from ray_committer.places.old_files import move_back, replaced_file, return_stranger
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.table_jobs.table_files import Found, compare, find_listed
from ray_committer.work.entries import STAYS
from ray_committer.work.sources import list_directory

FILES_ASIDE = 10_000
ROUNDS = 10

_GONE = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class Removal:
    """The number of files that this run has `removed`, and what is wrong with those that were `kept`."""

    removed: int = 0
    kept: tuple[str, ...] = ()


def remove_listed_files(
    store: StoreOperations,
    table: TablePlaces,
    claim: int,
    files: Sequence[ListedFile],
    is_in_flight: Callable[[], bool],
    *,
    keeps: bool = False,
) -> Removal:
    """Remove the old files of a claim in flight, and the directories that are empty then; idempotent.

    All runs for one claim must name the same files in the same order. A file without proof is kept. With
    `keeps`, on a store without versions, what was put aside is moved to where the log keeps it.
    `is_in_flight` is asked after the look at the files: if the claim has ended by then, they can be
    files of a later job, and nothing is removed.
    """
    puts_aside = old_files_of(store).puts_aside
    if not files or (puts_aside and not _make_places(store, table, claim, files)):
        return Removal()
    # By its number in the list, which is the same in each run.
    places = {file.path: _place(table, claim, number) for number, file in enumerate(files)}
    present = [finding for finding in find_listed(store, table, files) if finding.status is not None]
    if not is_in_flight():
        return Removal()
    proved = [finding for finding in present if finding.is_proved]
    kept = [str(finding) for finding in present if not finding.is_proved]
    left = list[str]()  # appending one element is thread-safe
    remove = partial(_remove_or_leave, store, left)
    removed = at_once(store, lambda finding: remove(finding, places[finding.file.path]), proved)
    kept += sorted(left)
    if puts_aside:
        kept += _remove_places(store, table, claim, files, keeps=keeps)
    _remove_empty_directories(store, table, files)
    return Removal(sum(removed), tuple(kept))


def keep_listed_files(
    store: StoreOperations,
    table: TablePlaces,
    claim: int,
    files: Sequence[ListedFile],
    is_in_flight: Callable[[], bool],
) -> Removal:
    """Move the old files of a claim to where the log keeps them; as `remove_listed_files`.

    If files have versions, each is renamed at once, which names the version. Otherwise it is put aside
    first, by one plain rename.
    """
    if old_files_of(store).puts_aside:
        return remove_listed_files(store, table, claim, files, is_in_flight, keeps=True)
    present = [finding for finding in find_listed(store, table, files) if finding.status is not None]
    if not is_in_flight():
        return Removal()
    kept = [str(finding) for finding in present if not finding.is_proved]
    places = [
        (finding.status, table.kept(claim, finding.file.path))
        for finding in present
        if finding.is_proved
    ]
    at_once(store, store.mkdirs, needed(store, sorted({parent(place) for _, place in places})))
    moved = at_once(store, lambda move: _move(store, *move), places)
    _remove_empty_directories(store, table, files)
    return Removal(sum(moved), tuple(kept))


def _remove_or_leave(store: StoreOperations, left: list[str], finding: Found, place: str) -> bool:
    """Remove a file that was proved; if it cannot be removed, add that to `left`."""
    try:
        return _remove(store, finding, place)
    except OSError as e:
        if e.errno not in STAYS:
            raise
        left.append(f"{finding.file.path}: could not be removed ({e.strerror})")
        return False


def _remove(store: StoreOperations, finding: Found, place: str) -> bool:
    """Remove a file that was proved; False if another process has, or has changed it."""
    status = finding.status
    if status is None:
        return False
    try:
        return old_files_of(store).remove(
            status.path, status.version, partial(_put_aside, store, status, place)
        )
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in _GONE:
            raise
        return False


def _put_aside(store: StoreOperations, status: FileStatus, place: str) -> bool:
    old_files_of(store).put_aside((replaced_file(status), place))
    return True


def _move(store: StoreOperations, status: FileStatus | None, place: str) -> bool:
    if status is None:
        return False
    try:
        settle(
            lambda: store.rename(status.path, place, status.version),
            lambda: store.get_status(status.path) is None,
        )
    except (FileExistsError, FileNotFoundError):  # another process has moved it
        return False
    return True


def _make_places(
    store: StoreOperations, table: TablePlaces, claim: int, files: Sequence[ListedFile]
) -> bool:
    """Make the directories aside; False if another process has ended the removal."""
    try:
        for number in range(0, len(files), FILES_ASIDE):
            store.mkdirs(parent(_place(table, claim, number)))
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _remove_places(
    store: StoreOperations, table: TablePlaces, claim: int, files: Sequence[ListedFile], *, keeps: bool
) -> list[str]:
    """Delete the files aside, or keep them, and put a file in the place of their directory. Files aside
    that are others are moved back first; what is wrong with them is returned."""
    aside, strangers = table.aside(claim), list[str]()
    # A process that slept can still put a file aside until a file is in the place of the directory.
    for _ in range(ROUNDS):
        for number in range(0, len(files), FILES_ASIDE):
            part = files[number : number + FILES_ASIDE]
            pairs = _list_aside(store, parent(_place(table, claim, number)), part)
            strangers += _move_strangers_back(store, table, pairs)
            if keeps:
                _keep(store, table, claim, pairs)
        if _is_closed(store, table, aside):
            return strangers
    raise CommitStateUnknownError(
        f"{mark(aside)}: another process keeps putting files there", "run the same command again"
    )


def _is_closed(store: StoreOperations, table: TablePlaces, aside: str) -> bool:
    with suppress(NotADirectoryError):
        store.delete_directory(aside)
    # A rename never replaces, so it fails as long as the directory is there.
    temporary = table.temporary(new_nonce())
    store.write(temporary, b"")
    try:
        settle(lambda: store.rename(temporary, aside), lambda: store.get_status(temporary) is None)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        store.delete_file(temporary)
        there = store.get_status(aside)
        return there is not None and not there.is_directory
    return True


def _list_aside(
    store: StoreOperations, directory: str, files: Sequence[ListedFile]
) -> list[tuple[str, Found]]:
    """What is aside in a directory, by its path, compared with what should be there."""
    listed = list_directory(store, directory)
    return [(status.path, compare(files[int(status.name) % FILES_ASIDE], status)) for status in listed]


def _move_strangers_back(
    store: StoreOperations, table: TablePlaces, pairs: Sequence[tuple[str, Found]]
) -> list[str]:
    """Move back what was put aside after the look at it, but is another file."""
    strangers = [(path, finding) for path, finding in pairs if not finding.is_proved]
    for path, finding in strangers:
        return_stranger(store, path, join(table.destination, finding.file.path))
    return [str(finding) for _, finding in strangers]


def _keep(
    store: StoreOperations, table: TablePlaces, claim: int, pairs: Sequence[tuple[str, Found]]
) -> None:
    """Move what is aside to where the log keeps it; what is kept there already is left aside."""
    places = [
        (path, finding.file, table.kept(claim, finding.file.path))
        for path, finding in pairs
        if finding.is_proved
    ]
    at_once(store, store.mkdirs, sorted({parent(place) for _, _, place in places}))
    for path, file, place in places:
        try:
            move_back(store, path, place)
        except FileExistsError as e:
            if not compare(file, store.get_status(place)).is_proved:
                raise CommitStateUnknownError(
                    f"{mark(place)}: another file is in the place where {mark(path)} is to be kept",
                    "nothing was deleted: move it away, and run the same command again",
                ) from e


def _place(table: TablePlaces, claim: int, number: int) -> str:
    return join(table.aside(claim), str(number // FILES_ASIDE), str(number))


def _remove_empty_directories(
    store: StoreOperations, table: TablePlaces, files: Sequence[ListedFile]
) -> None:
    """Force the removal to disk, and remove the directories of old files that are empty now."""
    paths = {parent(join(table.destination, file.path)) for file in files} - {table.destination}
    for directory in sorted(paths, key=lambda path: path.count("/"), reverse=True):
        with suppress(FileNotFoundError):
            store.sync(directory)
        for empty in needed(store, (directory,)):
            with suppress(OSError):  # in use, or not this user's: it is empty, so nothing is lost
                store.remove_empty_directory(empty)
