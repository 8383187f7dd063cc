"""Export a table with a log as an Iceberg table of the same files; of these only footers are read.

The first export names all files of the last version. After that, each version of the table that changes
files becomes one snapshot. A property of the snapshot says which version it is, and two versions of the
metadata cannot have the same place, so each version is there once. The partition record of each file is
made from the names of its directories: the library's ``add_files`` takes null for these.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ray_committer.errors import ExportError
from ray_committer.exports.beaten import BeatenError, until_done
from ray_committer.exports.columns import Partitioning, partitioning_of
from ray_committer.exports.cursor import Cursor, read_cursor, save_cursor
from ray_committer.exports.files import Change, change_of, data_files, require_parquet
from ray_committer.exports.footers import rows_of_change, schema_of_change
from ray_committer.exports.iceberg_table import Iceberg, as_iceberg, create_iceberg, open_iceberg
from ray_committer.exports.result import Exported
from ray_committer.exports.schemas import require_same
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import ICEBERG, TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.changes import committed_since
from ray_committer.tables.checkpoint import FilesAt

NAME = "iceberg"


def export_iceberg(store: StoreOperations, table: TablePlaces, definition: TableDefinition) -> Exported:
    """Export the versions of a table that its Iceberg table does not have yet; idempotent.

    Several processes can do this at once. Errors as `export_delta`.
    """
    export = _Export(store, table, definition)
    return until_done(export.run, table.destination, lambda: export.seen)


@dataclass(slots=True)
class _Export:
    """One run of an export, and what it has done so far; `seen` is the last version of the metadata."""

    store: StoreOperations
    table: TablePlaces
    definition: TableDefinition
    versions: int = 0
    added: int = 0
    removed: int = 0
    seen: int = 0

    def run(self) -> Exported:
        """Export what is left; `BeatenError` if another process has written to the Iceberg table."""
        iceberg = self._open()
        if iceberg is None:
            self._create()
            iceberg = self._open()
            if iceberg is None:
                raise BeatenError("it was removed")
        self._refuse_others(iceberg)
        version = iceberg.exported
        if version is None:
            version = self._commit(iceberg, self._all())
        for one in committed_since(self.store, self.table, self.definition.table_id, version):
            version = self._commit(iceberg, change_of(self.store, self.table, one))
        iceberg.save_hint()
        self._save_cursor(iceberg, version)
        return Exported(NAME, version, self.versions, self.added, self.removed)

    def _open(self) -> Iceberg | None:
        iceberg = open_iceberg(self.store, self.table)
        self.seen = 0 if iceberg is None else iceberg.version
        return iceberg

    def _all(self) -> Change:
        at = FilesAt(self.store, self.table, self.definition.table_id)
        return Change(at.state.version, "", data_files(at.below()))

    def _create(self) -> None:
        """Make the Iceberg table without files."""
        change = self._all()
        require_parquet(self.table, change.added, "Iceberg")
        declared = self.definition.partition_columns
        partitioning = partitioning_of(self.table.destination, change.added, declared)
        found = schema_of_change(self.store, self.table, self.definition.table_id, change)
        if found is None:
            if change.added:
                raise BeatenError("a file was removed")
            raise ExportError(
                f"{self.table.destination}: has no files yet, so the columns of the table are not known",
                "the table itself is as it was: run the same command after the first job",
            )
        for file in change.added:
            partitioning.values(file)
        columns = _without(found, partitioning)
        create_iceberg(self.store, self.table, columns, partitioning, self.definition.table_id)

    def _commit(self, iceberg: Iceberg, change: Change) -> int:
        """Write one version of the table as a snapshot."""
        require_parquet(self.table, change.added, "Iceberg")
        table_id = self.definition.table_id
        found = schema_of_change(self.store, self.table, table_id, change)
        if found is not None:
            path = join(self.table.destination, change.added[0].p)
            require_same(iceberg.schema, as_iceberg(_without(found, iceberg.partitioning)), path)
        rows = rows_of_change(self.store, self.table, table_id, change)
        iceberg.commit(change, rows)
        self.seen = iceberg.version
        self.versions += 1
        self.added += len(change.added)
        self.removed += len(change.removed)
        return change.version

    def _refuse_others(self, iceberg: Iceberg) -> None:
        if iceberg.table_id == self.definition.table_id and not iceberg.is_changed_by_others:
            return
        what = "is an Iceberg table that this package has not made for this table"
        if iceberg.table_id == self.definition.table_id:
            what = "another program has written to this Iceberg table"
        raise ExportError(
            f"{join(self.table.destination, ICEBERG)}: {what}",
            "nothing was changed: if nobody needs that Iceberg table, remove this directory and run the "
            "same command, which exports all files anew",
        )

    def _save_cursor(self, iceberg: Iceberg, version: int) -> None:
        now = Cursor(
            table_id=self.definition.table_id,
            version=version,
            target=iceberg.id,
            target_version=iceberg.version,
        )
        if now != read_cursor(self.store, self.table, NAME):
            save_cursor(self.store, self.table, NAME, now)


def _without(schema: pa.Schema, partitioning: Partitioning) -> pa.Schema:
    """The columns that are in the files."""
    return pa.schema([one for one in schema if one.name not in partitioning.types])
