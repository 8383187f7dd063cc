"""A job's state as the only name in a directory, for stores with atomic renames in a directory.

On large directories of some file systems, a listing made while the name changes can show neither of the
two names, or both. Such a listing is repeated, and never taken for "no state".
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection

from ray_committer.limits import waiting
from ray_committer.stores.base import STATE_SUFFIX, FileStatus, StoredState, StoreOperations

LOOKS = 8


class NamedStates(StoreOperations):
    """The operations on names of a store whose `rename` replaces neither a state nor a directory."""

    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        listed = self.list_page(path)
        return None if listed is None else [status for status in listed if status.name in names]

    def read_state(self, path: str) -> StoredState | None:
        return read_state_name(self.list_status, path)

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        self.rename(*state_rename(path, old, text))
        return StoredState(text)

    def move_directory(self, source: str, dest: str) -> None:
        self.rename(source, dest)


def state_rename(path: str, old: StoredState | None, text: str) -> tuple[str, str]:
    """Return source and destination of the rename that replaces the state `old` by `text`."""
    if old is None:
        raise ValueError(f"{path}: has no state to replace; move a directory with a state there")
    return f"{path}/{old.text}", f"{path}/{text}"


def read_state_name(
    list_status: Callable[[str], list[FileStatus]], path: str, *, looks: int = LOOKS
) -> StoredState | None:
    """Return the state in the directory `path`; None if there is no such directory. ``OSError`` if none
    of `looks` shows exactly one state: ``ENODATA`` if the last one shows none. One is enough on a store
    whose listings never show half of a rename."""
    for look in range(looks):
        if look:
            waiting.sleep(waiting.LISTING.after(look))
        try:
            listed = list_status(path)
        except FileNotFoundError:
            return None
        names = [status.name for status in listed if status.name.endswith(STATE_SUFFIX)]
        if len(names) == 1:
            return StoredState(names[0])
    number = errno.EIO if names else errno.ENODATA
    raise OSError(number, f"holds {len(names)} states of its job instead of one", path)
