"""The directories of a job's output, each made once however many tasks wrote into it.

One coordinator collects what every manifest names, keeps the leaves (making a leaf makes its parents,
so parents come before children by themselves) and hands each leaf to one worker at a time. It decides
and does no I/O, so a slow store client never holds it up. Replaces Hadoop's lock a manifest.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from ray_committer.protocol.fingerprints import fingerprint, fingerprints
from ray_committer.protocol.paths import parent


class Directories(Protocol):
    """What stages need of a coordinator, in this process or behind a Ray actor."""

    def collect(self, directories: Sequence[str]) -> None:
        """Add directories; any may have been added before."""

    def plan(self) -> int:
        """Fix the leaves and return their number; idempotent until more are collected."""

    def claim(self, limit: int) -> list[str]:
        """Hand out up to `limit` leaves that are neither made nor claimed."""

    def finish(self, made: Sequence[str]) -> None:
        """Note leaves that exist now."""

    def release(self) -> int:
        """End the claims of holders that are gone; return how many leaves are not made yet."""

    def fingerprints(self) -> bytes:
        """The fingerprints of all directories, ancestors included, once each."""

    def find(self, wanted: frozenset[bytes]) -> list[str]:
        """The directories that have one of these fingerprints."""


class DirectoryCoordinator:
    """`Directories` as a plain object; safe for threads, and run by Ray as an actor.

    A claim ends with its holder: the driver releases what is left when no holder runs any more.
    Making a directory twice is harmless.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collected: set[str] = set()
        self._inner: set[str] = set()
        self._waiting: list[str] = []
        self._claimed: set[str] = set()
        self._made: set[str] = set()

    def collect(self, directories: Sequence[str]) -> None:
        with self._lock:
            for directory in directories:
                if directory not in self._collected:
                    self._collected.add(directory)
                    self._note_ancestors(directory)

    def plan(self) -> int:
        with self._lock:
            leaves = self._collected - self._inner - self._made
            self._waiting = sorted(leaves - self._claimed, reverse=True)
            return len(leaves)

    def claim(self, limit: int) -> list[str]:
        with self._lock:
            taken = [self._waiting.pop() for _ in range(min(limit, len(self._waiting)))]
            self._claimed.update(taken)
            return taken

    def finish(self, made: Sequence[str]) -> None:
        with self._lock:
            self._made.update(made)
            self._claimed.difference_update(made)

    def release(self) -> int:
        with self._lock:
            self._waiting = sorted(self._claimed.union(self._waiting), reverse=True)
            self._claimed.clear()
            return len(self._waiting)

    def fingerprints(self) -> bytes:
        with self._lock:
            return fingerprints(self._collected | self._inner)

    def find(self, wanted: frozenset[bytes]) -> list[str]:
        with self._lock:
            known = self._collected | self._inner
            return [path for path in known if fingerprint(path) in wanted]

    def _note_ancestors(self, directory: str) -> None:
        above = parent(directory)
        while above not in self._inner and above != "/":
            self._inner.add(above)
            above = parent(above)
