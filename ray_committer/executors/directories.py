"""The coordinator of a job: each directory of its tasks is made once, and each name has one owner.

One coordinator collects the directories and files of every manifest. It finds the leaf directories and
hands each to one worker at a time; making a leaf also makes its parents, so parents always come before
children. For each file it keeps eight bytes, to find two files of one name. It decides and does no I/O,
so a slow store client never delays it. It replaces Hadoop's lock per manifest.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ray_committer.protocol.fingerprints import common, fingerprint, fingerprints, repeated, share_of
from ray_committer.protocol.paths import parent


class DirectoryCoordinator:
    """The coordinator that stages use, in this process or behind a Ray actor; safe for threads. One that
    was lost and started again is empty, and every call raises `CoordinatorLostError` until `renew`
    accepts it and everything is collected again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collected: set[str] = set()
        self._inner: set[str] = set()
        self._waiting: list[str] = []
        self._claimed: set[str] = set()
        self._made: set[str] = set()
        self._files: dict[int, bytes] = {}

    def renew(self) -> None:
        """Continue with an empty coordinator if the previous one was lost; nothing to do here."""

    def forget(self) -> None:
        """Forget what was collected; idempotent."""
        with self._lock:
            for known in (self._collected, self._inner, self._waiting, self._claimed, self._made):
                known.clear()
            self._files.clear()

    def collect(self, batch: int, directories: Sequence[str], files: bytes) -> None:
        """Add the directories and the files' fingerprints of one batch; a repetition changes nothing."""
        with self._lock:
            self._files[batch] = files
            new = set(directories) - self._collected
            self._collected |= new
            for directory in new:
                self._note_ancestors(directory)

    def plan(self) -> int:
        """Fix the leaves and return their number; idempotent until more are collected."""
        with self._lock:
            # A leaf makes all above it, so an inner directory is never handed out: no two race for it.
            leaves = self._collected - self._inner - self._made
            self._waiting = sorted(leaves - self._claimed, reverse=True)
            return len(leaves)

    def claim(self, limit: int) -> list[str]:
        """Hand out up to `limit` leaves that are neither made nor claimed."""
        with self._lock:
            # From the end, where removing costs nothing; sorted backwards, so names come in order.
            taken = self._waiting[-limit:][::-1]
            del self._waiting[-limit:]
            self._claimed.update(taken)
            return taken

    def finish(self, made: Sequence[str]) -> None:
        """Note leaves that exist now."""
        with self._lock:
            self._made.update(made)
            self._claimed.difference_update(made)

    def release(self) -> int:
        """End the claims of holders that are gone; return how many leaves are not made yet."""
        with self._lock:
            # Made twice by a holder that is only slow is harmless: nothing has to prove that it is gone.
            self._waiting = sorted(self._claimed.union(self._waiting), reverse=True)
            self._claimed.clear()
            return len(self._waiting)

    def repeated(self) -> frozenset[bytes]:
        """Return the fingerprints that more than one file or directory has, ancestors included."""
        with self._lock:
            return repeated([*self._files.values(), fingerprints(self._collected | self._inner)])

    def written(self, files: bytes) -> frozenset[bytes]:
        """Return the fingerprints among `files` that files of the job also have."""
        with self._lock:
            return common(self._files.values(), files)

    def find(self, wanted: frozenset[bytes]) -> list[str]:
        """Return the directories that have one of these fingerprints."""
        with self._lock:
            known = self._collected | self._inner
            return [path for path in known if fingerprint(path) in wanted]

    def share(self, number: int, shares: int) -> list[str]:
        """Return the collected directories whose fingerprint falls into share `number` of `shares`."""
        with self._lock:
            return [path for path in self._collected if share_of(fingerprint(path), shares) == number]

    def _note_ancestors(self, directory: str) -> None:
        above = parent(directory)
        # Once an ancestor is known, all above it are: each directory costs its new ancestors only.
        while above not in self._inner and above != "/":
            self._inner.add(above)
            above = parent(above)
