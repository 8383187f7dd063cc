"""Stores on which a job could be decided twice."""

from __future__ import annotations

from ray_committer.stores.base import StoredState
from ray_committer.testing import Identity, MemoryStore
from tests.promises.lies.lie import Lie


class ChangesAnyState(MemoryStore):
    """As a store without conditions: whoever writes last wins."""

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        if self.real_directories and old is not None:
            self.write(f"{path}/{text}", b"")
            self.delete_file(f"{path}/{old.text}")
            return StoredState(text)
        self.write(path, text.encode())
        return StoredState(text, str(self._files[path].generation))


class RefusesButChangesStates(MemoryStore):
    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        try:
            return super().advance(path, old, text)
        except FileExistsError:
            self.write(path, text.encode())
            raise


class PutsFirstStatesAnywhere(MemoryStore):
    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        return super().advance(path, old or self.read_state(path), text)


class PutsAnotherState(MemoryStore):
    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        return super().advance(path, old, f"x{text}")


LIES = [
    Lie(ChangesAnyState, {"a state changes once"}),
    Lie(
        ChangesAnyState,
        {"a state changes once", "a first state replaces none"},
        Identity.GENERATION,
        is_flat=True,
    ),
    Lie(
        RefusesButChangesStates,
        {"a state changes once", "a first state replaces none"},
        is_flat=True,
    ),
    Lie(PutsFirstStatesAnywhere, {"a first state replaces none"}, is_flat=True),
    Lie(PutsAnotherState, {"a state changes once"}),
]
