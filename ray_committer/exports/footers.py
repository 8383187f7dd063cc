"""What the footers of a version's files say; files that a later version has removed can be gone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ray_committer.errors import ExportError
from ray_committer.exports.beaten import BeatenError
from ray_committer.exports.files import Change
from ray_committer.exports.schemas import rows_of_file, schema_of_file
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.snapshot import TableSnapshot


def schema_of_change(
    store: StoreOperations, table: TablePlaces, table_id: str, change: Change
) -> pa.Schema | None:
    """The schema of the first file of a change; None if there is none, or if a later job removed it.

    `ExportError` if it is gone although the log names it.
    """
    for file in change.added[:1]:
        try:
            return schema_of_file(store.spec, table.destination, file.p)
        except FileNotFoundError:
            require_removed(store, table, table_id, [file])
    return None


def rows_of_change(
    store: StoreOperations, table: TablePlaces, table_id: str, change: Change
) -> Sequence[tuple[ListedFile, int]]:
    """The files that a change adds, without those that a later job removed, and their rows; one footer
    per file. Errors as `schema_of_change`."""

    def rows(file: ListedFile) -> int | None:
        try:
            return rows_of_file(store.spec, table.destination, file.p)
        except FileNotFoundError:
            return None

    found = list(zip(change.added, at_once(store, rows, change.added), strict=True))
    require_removed(store, table, table_id, [file for file, count in found if count is None])
    return [(file, count) for file, count in found if count is not None]


def require_removed(
    store: StoreOperations, table: TablePlaces, table_id: str, gone: Sequence[ListedFile]
) -> None:
    """`ExportError` if the last version of the table has one of some files that are gone; `BeatenError`
    if a job may be moving them to their places just now."""
    if not gone:
        return
    now = TableSnapshot(store, table, table_id)
    for directory in sorted({partition_of(file.p) for file in gone}):
        if not now.is_settled(directory):
            raise BeatenError("a job moves its files to their places")
        named = {file.p: file for file in now.files(directory)}
        for file in gone:
            if named.get(file.p) == file:
                raise _gone(table, file)


def _gone(table: TablePlaces, file: ListedFile) -> ExportError:
    return ExportError(
        f"{join(table.destination, file.p)}: is gone, although the log of the table names it",
        "the table itself is as it was: restore it from soft delete or a snapshot; to compare all files "
        "with the log, run: ray-committer table scan DEST",
    )
