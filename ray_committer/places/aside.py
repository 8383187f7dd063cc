"""Move what was taken aside back to its path, and never over another file."""

from __future__ import annotations

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.places.settle import settle
from ray_committer.protocol.paths import parent
from ray_committer.stores.base import StoreOperations


def move_back(store: StoreOperations, place: str, path: str) -> None:
    """Move a file or a directory back from its place aside, never over another; nothing if another
    process has done it."""
    aside = store.get_status(place)
    if aside is None:
        return
    rename = store.rename if not aside.is_directory else store.move_directory
    for is_last in (False, True):
        try:
            settle(lambda: rename(place, path), lambda: is_gone(store, place))
        except FileNotFoundError:
            if is_gone(store, place):
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
            f"{mark(path)}: another program wrote a file there while its name was taken away, and then "
            f"one more: the first is now {mark(place)}, and nothing is lost",
            "move one of the two away, and run the same command again",
        ) from e


def is_gone(store: StoreOperations, path: str) -> bool:
    """Whether nothing is at a path."""
    return store.get_status(path) is None
