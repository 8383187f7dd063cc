"""What the tests of tables share: a table, and entries of its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray_committer.protocol.file_list import FileSet, ListedFile, inline_set
from ray_committer.protocol.table_entry import (
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    TableDone,
    WriteMode,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import append, init_table

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
