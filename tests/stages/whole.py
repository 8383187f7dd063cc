"""What the tests of directories that go whole share: a source with files, and its move."""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.protocol.paths import join
from ray_committer.protocol.whole import BY_ETAG, BY_TIME, Move, Moves, Sources, Tally, Verdict, goal_of
from ray_committer.testing import Identity, MemoryStore
from ray_committer.testing.harness import put_file
from ray_committer.work.source_tallies import tally_of
from tests.stages.support import JOB

TASKS = JOB.with_frozen_tasks("nonce").tasks
KEY = "0123456789abcdef" * 2
SOURCE = f"in/{KEY}"
DEST = "/table/p=1"
FILES = {"a": b"1", "b": b"22", "c": b"333"}


def with_source(store: MemoryStore | None = None, source: str = SOURCE) -> MemoryStore:
    """A store with a source of some files."""
    store = MemoryStore() if store is None else store
    for name, data in FILES.items():
        put_file(store, join(TASKS, source, name), data)
    return store


def move_of(
    store: MemoryStore, dest: str = DEST, source: str = SOURCE, leftovers: tuple[str, ...] = ()
) -> Move:
    """The move of all that is in a source, but for the `leftovers`."""
    proof = BY_ETAG if store.identity is Identity.ETAG else BY_TIME
    listed = [one for one in store.list_status(join(TASKS, source)) if one.name not in leftovers]
    tally = tally_of(listed, proof)
    return Move(source, dest, tally.files, tally.size, tally.total, proof, leftovers)


def moves_of(given: Sequence[Move]) -> Moves:
    """Some moves as a plan holds them."""
    sources, verdicts = Sources(), {move.source: Verdict(move.leftovers) for move in given}
    for move in given:
        sources.add(move.source, Tally(move.files, move.size, move.total, move.proof))
    strays = {goal_of(move.dest, "/table"): bytes.fromhex(move.source[3:]) for move in given}
    return Moves(sources, verdicts, "/table", strays, [move.dest for move in given])
