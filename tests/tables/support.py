"""What the tests of tables share: a table, and entries of its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ray_committer.protocol.file_list import FileSet, ListedFile, inline_set
from ray_committer.protocol.table_entry import (
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    TableDone,
    WriteMode,
    encode_entries,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.append import append
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import init_table

TABLE = TablePlaces("/table")
DEFINITION = TableDefinition(table_id="id", created_milliseconds=1)


def claim_of(
    job_id: str,
    files: FileSet | Sequence[ListedFile] = (),
    *,
    mode: WriteMode = WriteMode.APPEND,
    partitions: Sequence[str] = ("day=1",),
    **fields: Any,
) -> TableClaim:
    files = files if isinstance(files, FileSet) else inline_set(files)
    values = {"job_attempt": 0, "nonce": f"nonce of {job_id}", "at_milliseconds": 1, **fields}
    return TableClaim(job_id=job_id, mode=mode, partitions=list(partitions), files=files, **values)


def commit_of(
    version: int,
    removed: FileSet | Sequence[ListedFile] = (),
    *,
    quiet: int = 0,
    kept: bool = False,
) -> TableCommit:
    removed = removed if isinstance(removed, FileSet) else inline_set(removed)
    return TableCommit(
        job_id="job",
        job_attempt=0,
        claim=version,
        quiet=quiet,
        at_milliseconds=2,
        removed=removed,
        kept=kept,
    )


def done_of(version: int) -> TableDone:
    return TableDone(job_id="job", job_attempt=0, claim=version, at_milliseconds=3)


def abort_of(version: int, job_id: str = "job") -> TableAbort:
    return TableAbort(job_id=job_id, job_attempt=0, claim=version, at_milliseconds=4)


def table_on(store: StoreOperations, table: TablePlaces = TABLE) -> StoreOperations:
    """The store, with an empty table."""
    init_table(store, table, DEFINITION)
    return store


def append_commit(
    store: StoreOperations,
    job_id: str,
    added: FileSet | Sequence[ListedFile] = (),
    removed: FileSet | Sequence[ListedFile] = (),
    *,
    table: TablePlaces = TABLE,
    kept: bool = False,
    **fields: Any,
) -> int:
    """Append the entries of a whole commit; the version of its last one."""
    version = append(store, table, claim_of(job_id, added, **fields), 0)
    commit = commit_of(version, removed, kept=kept)
    after = append(store, table, commit, version)
    return append(store, table, done_of(version), after) if commit.removed.files else after


def pack_log(store: StoreOperations, starts: Iterable[int], table: TablePlaces = TABLE) -> None:
    """Put the entries of a log into other files, as if they had been put so: one begins at each of
    `starts`."""
    entries = read_entries(store, table)
    for version, _ in entries:
        store.delete_file(table.entry(version))
    bounds = [*sorted(starts), entries[-1][0] + 1]
    for start, end in pairwise(bounds):
        pack = [entry for version, entry in entries if start <= version < end]
        store.write(table.entry(start), encode_entries(pack))
