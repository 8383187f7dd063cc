"""A table with a log, and what is tried there together, for `tests.machines.schedules`."""

from __future__ import annotations

from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.make_table import make_table
from ray_committer.stores.base import StoreOperations
from tests.machines.operations import Operation, pairs


def begin_log(store: StoreOperations, table: str) -> None:
    """Make a destination a table with a log, which names the files that are there."""
    make_table(store, TablePlaces(table), TableDefinition(table_id="table", created_milliseconds=1), 1)


def table_pairs() -> list[tuple[Operation, Operation]]:
    """`pairs`, without jobs that are set up below a table, which are refused."""
    return [pair for pair in pairs() if not any(one.job and one.job.below for one in pair)]
