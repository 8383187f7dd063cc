"""The doctor's own directory below ``$dest/_temporary``, which is removed at the end."""

from __future__ import annotations

import uuid
from itertools import count, takewhile

from ray_committer.promises.lines import Line, Verdict
from ray_committer.promises.promise import OwnDirectory
from ray_committer.protocol.paths import ancestors, join, temporary_directory
from ray_committer.stores.base import StoreOperations

PROOF = b"written by ray-committer doctor\n"


class Scratch:
    """Files for the doctor checks; nothing outside `path` is ever written or deleted."""

    def __init__(self, store: StoreOperations, destination: str) -> None:
        self.store = store
        self.path = join(temporary_directory(destination), f"doctor-{uuid.uuid4()}")
        self.proof = join(self.path, "proof")
        self._made: list[str] = []
        self._numbers = count(1)

    def make(self) -> Line:
        """Make the directory, and note which of its parents were missing."""
        above = [*ancestors(self.path, "/")]
        # From the directory up to the first that is there: nearest first, as they are removed.
        self._made = list(takewhile(lambda path: self.store.get_status(path) is None, above))
        self.store.mkdirs(self.path)
        self.store.write(self.proof, PROOF)
        if self.store.read(self.proof) != PROOF:
            return Line("write", Verdict.FAILED, f"{self.proof}: its content is not what was written")
        return Line("write", Verdict.OK, f"{len(PROOF)} bytes were read as they were written")

    def remove(self) -> Line:
        """Remove the directory, and its parents that were made for it and are empty."""
        self.store.delete_directory(self.path)
        for path in self._made:
            if self.store.get_status(path) is not None:
                self.store.remove_empty_directory(path)
        if self.store.get_status(self.path) is not None:
            return Line("clean-up", Verdict.FAILED, f"{self.path}: is still there", "delete it")
        return Line("clean-up", Verdict.OK, "nothing was left behind")

    def directory(self, name: str) -> OwnDirectory:
        """Make a directory for one run of one check."""
        path = join(self.path, f"{next(self._numbers)}-{name.replace(' ', '-')}")
        self.store.mkdirs(path)
        return OwnDirectory(self.store, path)
