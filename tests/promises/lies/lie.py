"""A store in memory that breaks promises: the contract and the doctor must both see which."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from ray_committer.testing import Identity, MemoryStore


@dataclass(frozen=True)
class Lie:
    """A kind of store, the promises that it breaks, and the doctor's other lines that fail with them."""

    kind: Callable[..., MemoryStore]
    promises: Set[str]
    identity: Identity = Identity.ETAG
    is_flat: bool = False
    other_lines: Set[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind.__name__}-{'flat-' * self.is_flat}{self.identity.value}"

    def store(self) -> MemoryStore:
        return self.kind(identity=self.identity, real_directories=not self.is_flat)
