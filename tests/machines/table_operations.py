"""A table with a log, and what is tried there together, for `tests.machines.schedules`."""

from __future__ import annotations

from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.make_table import make_table
from tests.machines.operations import Job, Operation, abort, commit, each_with, pairs, undo

ONCE = Job("once", {"p=1/c": b"c1", "p=3/c": b"c3"}, run_id="run")
TWICE = Job("twice", {"p=1/t": b"t1", "p=3/t": b"t3"}, run_id="run")
THRICE = Job("thrice", {"p=1/v": b"v1", "p=3/v": b"v3"}, run_id="run")
HALF_ONCE = Job("half once", {"p=1/h": b"h1", "p=3/h": b"h3"}, is_half=True, run_id="run")
OVER = Job("over", {"p=1/same": b"y-same", "p=4/y": b"y4"}, ConflictMode.OVERWRITE, ("",), run_id="over")
OVER_AGAIN = Job(
    "over again", {"p=1/same": b"z-same-", "p=5/z": b"z5"}, ConflictMode.OVERWRITE, ("",), run_id="over"
)


def begin_log(store: StoreOperations, table: str) -> None:
    """Make a destination a table with a log, which names the files that are there."""
    make_table(store, TablePlaces(table), TableDefinition(table_id="table", created_milliseconds=1), 1)


def table_pairs() -> list[tuple[Operation, Operation]]:
    """`pairs`, without jobs that are set up below a table, which are refused; and those of run ids."""
    found = [pair for pair in pairs() if not any(one.job and one.job.below for one in pair)]
    return found + run_pairs()


def run_pairs() -> list[tuple[Operation, Operation]]:
    """Pairs of operations on jobs of one run id."""
    of_once = [commit(ONCE), abort(ONCE), undo(ONCE)]
    found = each_with([commit(TWICE)], [*of_once, commit(TWICE), commit(THRICE)])
    found += each_with([commit(TWICE)], [commit(HALF_ONCE), undo(HALF_ONCE)])
    found += each_with([commit(OVER)], [commit(OVER_AGAIN), undo(OVER_AGAIN)])
    return list({(one.name, other.name): (one, other) for one, other in found}.values())
