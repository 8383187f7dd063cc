"""Take what is at a path away in one step, to a place of a job's own, and move it back.

A process may sleep between its look at a file and the removal, and a later job may write a file of that
name. So what others can see is never deleted after a look. If files have versions, the request names the
version. Otherwise the file is renamed to a directory that only one job uses and that ends with it, and
is compared there. A process that wakes up later finds no such directory, and takes nothing.
"""

from __future__ import annotations

from functools import partial

from ray_committer.errors import CommitStateUnknownError
from ray_committer.places.settle import settle
from ray_committer.protocol.paths import parent
from ray_committer.stores.base import StoreOperations, Versions


def sets_aside(store: StoreOperations) -> bool:
    """Whether files are put aside because the store cannot bind a deletion to a version."""
    return store.capabilities.sets_aside and store.capabilities.versions is Versions.NONE


def take_aside(store: StoreOperations, path: str, place: str, version: str | None = None) -> None:
    """Rename a file to a place of the job's own. Without versions, any other file, or directory, that is
    at `path` by then is taken, too: the caller compares, and moves it back.

    ``FileNotFoundError`` if the file, or the directory of `place`, is missing. ``FileExistsError`` if it
    is another version, or if a file is at `place`; some stores replace that one.
    """
    rename = store.set_aside if sets_aside(store) else partial(_rename, store, version)
    settle(lambda: rename(path, place), lambda: _is_gone(store, path) and not _is_gone(store, place))


def _rename(store: StoreOperations, version: str | None, path: str, place: str) -> None:
    store.rename(path, place, version)


def move_back(store: StoreOperations, place: str, path: str) -> None:
    """Move a file or a directory back from its place aside, never over another; nothing if another
    process has done it."""
    aside = store.get_status(place)
    if aside is None:
        return
    rename = store.rename if not aside.is_directory else store.move_directory
    for is_last in (False, True):
        try:
            settle(lambda: rename(place, path), lambda: _is_gone(store, place))
        except FileNotFoundError:
            if _is_gone(store, place):
                return
            if is_last:
                raise
            store.mkdirs(parent(path))  # it was removed when it was empty
        else:
            return


def return_stranger(store: StoreOperations, place: str, path: str) -> None:
    """Move back what was taken and is not the caller's; `CommitStateUnknownError`, with both files kept,
    if its name is taken by then."""
    try:
        move_back(store, place, path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as e:
        raise CommitStateUnknownError(
            f"{path}: another program wrote a file there while its name was taken away, and then one "
            f"more: the first is now {place}, and nothing is lost",
            "move one of the two away, and run the same command again",
        ) from e


def _is_gone(store: StoreOperations, path: str) -> bool:
    return store.get_status(path) is None
