"""The jobs that were committed to a table after a version, in the order of their commits.

A job's commit can be far behind its claim, which names its files. So a claim before the version counts
if its commit comes after it.
"""

from __future__ import annotations

from ray_committer.errors import TableLogGoneError
from ray_committer.protocol.table_entry import LogEntry, TableClaim, TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted, TableState, follow
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_state
from ray_committer.tables.log import find_head, read_entries, version_gone


def committed_since(
    store: StoreOperations, table: TablePlaces, table_id: str, since: int
) -> list[ClaimCommitted]:
    """The jobs whose commit is after version `since`, up to the head, in the order of their commits.
    `TableVersionGoneError` if the log has no version `since`."""
    entries = _entries_since(store, table, since)
    # Most jobs claim and commit between two looks. Only if one has claimed before, the state before is
    # read.
    known = {version for version, entry in entries if isinstance(entry, TableClaim)}
    if all(entry.claim in known for _, entry in entries if isinstance(entry, TableCommit)):
        before = TableState(since)
        entries = [
            (version, entry)
            for version, entry in entries
            if isinstance(entry, TableClaim) or entry.claim in known
        ]
    else:
        before = read_state(store, table, table_id, since)
    return follow(before, entries)[1]


def _entries_since(store: StoreOperations, table: TablePlaces, since: int) -> list[tuple[int, LogEntry]]:
    try:
        return read_entries(store, table, since, by_threads=True)
    except TableLogGoneError as e:
        head = find_head(store, table)
        # The log is there and reaches so far: then a file in its middle is gone, which is another error.
        if head >= since:
            raise
        raise version_gone(table, since, head) from e
