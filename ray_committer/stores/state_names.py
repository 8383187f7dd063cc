"""A job's state as the one name in a directory, for stores that rename within one in one step.

A listing made while the name changes may show neither of the two names or both, on large directories of
some file systems; it is made again then, and never taken for "no state".
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Protocol

from ray_committer.stores.base import STATE_SUFFIX, FileStatus, StoredState

LOOKS = 8
PAUSE_SECONDS = 0.002


class _Lists(Protocol):
    def list_status(self, path: str) -> list[FileStatus]: ...


class _Renames(_Lists, Protocol):
    def rename(self, source: str, dest: str, version: str | None = None) -> None: ...


class NamedStates:
    """What a store does with states and directories whose `rename` replaces neither files nor
    directories.
    """

    def read_state(self: _Lists, path: str) -> StoredState | None:
        return read_state_name(self.list_status, path)

    def advance(self: _Renames, path: str, seen: StoredState | None, text: str) -> StoredState:
        self.rename(*state_rename(path, seen, text))
        return StoredState(text)

    def move_directory(self: _Renames, source: str, dest: str) -> None:
        """Rename a directory with all it holds; never into another."""
        self.rename(source, dest)

    def set_aside(self: _Renames, path: str, place: str) -> None:
        """Rename a file to a name that is meant for it."""
        self.rename(path, place)


def state_rename(path: str, seen: StoredState | None, text: str) -> tuple[str, str]:
    """The two ends of the rename that puts the state `text` in the place of `seen`."""
    if seen is None:
        raise ValueError(f"{path}: where a state is a name, its directory is moved into place with one")
    return f"{path}/{seen.text}", f"{path}/{text}"


def read_state_name(
    list_status: Callable[[str], list[FileStatus]], path: str, *, looks: int = LOOKS
) -> StoredState | None:
    """The state in the directory `path`, None if there is no such directory; ``OSError`` if it stays
    unclear which it is, ``ENODATA`` if it never shows one. One of `looks` is enough where a listing
    never shows half of a rename."""
    for look in range(looks):
        time.sleep(PAUSE_SECONDS * (2**look - 1))
        try:
            listed = list_status(path)
        except FileNotFoundError:
            return None
        names = [status.name for status in listed if status.name.endswith(STATE_SUFFIX)]
        if len(names) == 1:
            return StoredState(names[0])
    number = errno.EIO if names else errno.ENODATA
    raise OSError(number, f"holds {len(names)} states of its job, where one should be", path)
