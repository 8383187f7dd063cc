"""The rights of directories, and by which name a store knows who writes to it: a client can have a
principal, a token or a key."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_REMEMBERED = 16


def rights_of(owner: str | None, group: str | None, mode: str | None) -> str | None:
    """Return rights as a status shows them; None if a part is not known."""
    return f"{owner}:{group}:{mode}" if owner and group and mode else None


class Owner:
    """The owner of what this process writes, which a file shows that was written and is still there.
    `look` returns owner and group of a path; None if nothing is there, or if it has an access list."""

    def __init__(self, look: Callable[[str], tuple[str, str] | None]) -> None:
        self._look = look
        self._name = ""
        self._written: deque[str] = deque(maxlen=_REMEMBERED)
        self._learning = threading.Lock()

    def wrote(self, path: str) -> None:
        """Remember a file that was written."""
        if not self._name:
            self._written.append(path)

    def rights_below(self, path: str, mode: str) -> str | None:
        """Return the rights of a new directory, with `mode` and the group of the directory `path`."""
        above = self._look(path)
        return rights_of(self._learned(), above[1], mode) if above else None

    def _learned(self) -> str:
        """The name of the user, perhaps empty: other threads wait for the answers that one waits for."""
        with self._learning, suppress(IndexError):  # until it is known, or nothing was written
            while not self._name:
                self._name = (self._look(self._written.pop()) or ("",))[0]
        return self._name
