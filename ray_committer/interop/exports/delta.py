"""Export a table with a log as a Delta table in the same directory: no data file is read or written.

The first export names all files of the last version. After that, each version of the table that changes
files becomes one version of the Delta table. Delta's own ``txn`` action says in each of these which one
it is, so it is there once: a process that was beaten, or does not know whether its write was carried
out, reads the Delta table again. Source: Delta's protocol, "Transaction Identifiers".
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from ray_committer.errors import ExportError, TableLogError, mark
from ray_committer.interop.exports.beaten import BeatenError, until_done
from ray_committer.interop.exports.columns import partitioning_of
from ray_committer.interop.exports.delta_table import Delta, create_delta, open_delta
from ray_committer.interop.exports.files import Change, change_of, data_files, require_parquet
from ray_committer.interop.exports.result import Exported
from ray_committer.interop.exports.schemas import require_same, schema_of_file
from ray_committer.places.choose import own_files_of
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import TableDefinition, decode_content, encode_content
from ray_committer.protocol.table_paths import DELTA_LOG, TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.changes import committed_since
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.tables.snapshot import TableSnapshot


def export_delta(store: StoreOperations, table: TablePlaces, definition: TableDefinition) -> Exported:
    """Export the versions of a table that its Delta table does not have yet; idempotent.

    Several processes can do this at once. `ExportError` if there is a Delta table that this function has
    not made, or that another program has changed since; if a value does not have the type of its
    partition column; if the schema has changed; if a file is gone; or if one is not Parquet.
    """
    export = _Export(store, table, definition)
    return until_done(export.run, table.destination, lambda: export.seen)


@dataclass(slots=True)
class _Export:
    """One run of an export, and what it has done so far; `seen` is the Delta table's last version."""

    store: StoreOperations
    table: TablePlaces
    definition: TableDefinition
    versions: int = 0
    added: int = 0
    removed: int = 0
    seen: int = -1

    @property
    def app_id(self) -> str:
        """The name under which the Delta table notes the last version of the table that it has."""
        return f"ray_committer-{self.definition.table_id}"

    def run(self) -> Exported:
        """Export what is left; `BeatenError` if another process has written to the Delta table."""
        delta = self._open()
        if delta is None:
            self._create()
            delta = self._open()
            if delta is None:
                raise BeatenError("it was removed")
        version = delta.exported(self.app_id)
        if version is None:
            raise ExportError(
                f"{mark(join(self.table.destination, DELTA_LOG))}: is of a Delta table that this "
                "package has not made for this table",
                "nothing was changed: if nobody needs that Delta table, remove this directory and run "
                "the same command",
            )
        cursor = self._cursor(delta)
        known = -1 if cursor is None else cursor.target_version
        # Before anything is written: the versions that follow would hide what another program has done.
        _refuse_others(self.store, self.table, self.app_id, known, delta.version)
        for commit in committed_since(self.store, self.table, self.definition.table_id, version):
            self._commit(delta, change_of(self.store, self.table, commit))
            version = commit.version
        # Last: a cursor that is behind only costs reading more.
        current = Cursor(self.definition.table_id, version, delta.id, delta.version)
        if current != cursor:
            save_cursor(self.store, self.table, current)
        return Exported(version, self.versions, self.added, self.removed)

    def _open(self) -> Delta | None:
        delta = open_delta(self.store.spec, self.table.destination)
        self.seen = -1 if delta is None else delta.version
        return delta

    def _create(self) -> None:
        """Make the Delta table, with all files that the table has now in its first version."""
        at = FilesAt(self.store, self.table, self.definition.table_id)
        change = Change(at.state.version, "", data_files(at.below()))
        require_parquet(self.table, change.added)
        partitioning = partitioning_of(
            self.table.destination, change.added, self.definition.partition_columns
        )
        file_schema = self._schema(change)
        if file_schema is None:
            if change.added:
                raise BeatenError("a file was removed")
            raise ExportError(
                f"{mark(self.table.destination)}: has no files yet, so the columns of the table are not "
                "known",
                "the table itself is as it was: run the same command after the first job",
            )
        columns = pa.schema([field for field in file_schema if field.name not in partitioning.types])
        spec, destination = self.store.spec, self.table.destination
        create_delta(spec, destination, columns, partitioning, change, self.app_id)
        self._note(change)

    def _commit(self, delta: Delta, change: Change) -> None:
        """Write one version of the table; its schema is taken from one file that is still there."""
        require_parquet(self.table, change.added)
        file_schema = self._schema(change)
        if file_schema is not None:
            partitions = delta.partitioning.types
            columns = pa.schema([field for field in file_schema if field.name not in partitions])
            require_same(delta.schema, columns, join(self.table.destination, change.added[0].path))
        before = delta.version
        delta.commit(change, self.app_id)
        self._note(change)
        if delta.version != before + 1:  # it has also read what others have written by now
            raise BeatenError("another process has written a later version")

    def _schema(self, change: Change) -> pa.Schema | None:
        """The schema of the first file of a change; None if there is none, or if a later job removed it.
        `ExportError` if it is gone although the log names it."""
        for file in change.added[:1]:
            try:
                return schema_of_file(self.store.spec, self.table.destination, file.path)
            except FileNotFoundError:
                self._require_removed(file)
        return None

    def _require_removed(self, gone: ListedFile) -> None:
        """`ExportError` if the last version of the table has a file that is gone; `BeatenError` if a job
        may be moving it to its place just now."""
        snapshot, directory = (
            TableSnapshot(self.store, self.table, self.definition.table_id),
            partition_of(gone.path),
        )
        # The log names the new files as soon as the job is committed. New files that take the names of
        # old ones are moved a moment later.
        if not snapshot.is_settled(directory):
            raise BeatenError("a job moves its files to their places")
        if gone in snapshot.files(directory):
            raise ExportError(
                f"{mark(join(self.table.destination, gone.path))}: is gone, although the log of the "
                "table names it",
                "the table itself is as it was: restore it from soft delete or a snapshot; to compare "
                "all files with the log, run: ray-committer table scan DEST",
            )

    def _note(self, change: Change) -> None:
        self.versions += 1
        self.added += len(change.added)
        self.removed += len(change.removed)

    def _cursor(self, delta: Delta) -> Cursor | None:
        """The cursor, unless it is about another table, or another Delta table."""
        cursor = read_cursor(self.store, self.table)
        key = self.definition.table_id, delta.id
        return cursor if cursor is not None and (cursor.table_id, cursor.target) == key else None


class Cursor(msgspec.Struct, frozen=True, tag="export"):
    """How far an export of the table `table_id` has come.

    It decides nothing that the Delta table can decide itself. It can be lost, or be behind: then more is
    read, and nothing is exported twice.

    version: the last version of the table that was exported.
    target: the id of the Delta table: another one at the same place has another id.
    target_version: the version of the Delta table afterwards.
    """

    table_id: str
    version: int
    target: str
    target_version: int


def read_cursor(store: StoreOperations, table: TablePlaces) -> Cursor | None:
    """Read the cursor of a table's export; None if there is none that can be read."""
    path = table.delta_cursor
    try:
        return decode_content(store.read(path), _DECODER, path)
    except (FileNotFoundError, TableLogError):
        return None


def save_cursor(store: StoreOperations, table: TablePlaces, cursor: Cursor) -> None:
    """Replace the cursor of a table's export in one step; idempotent."""
    temporary = table.temporary(new_nonce())
    own_files_of(store).put(table.delta_cursor, encode_content(cursor), temporary=temporary)


class _Present(msgspec.Struct, frozen=True):
    """An object of which only the presence counts."""


class _Transaction(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str


class _Action(msgspec.Struct, frozen=True):
    """One line of a version; only what this module needs."""

    add: _Present | None = None
    remove: _Present | None = None
    txn: _Transaction | None = None


def _refuse_others(
    store: StoreOperations, table: TablePlaces, app_id: str, since: int, until: int
) -> None:
    """`ExportError` if another program has added or removed files in a version after `since`; one whose
    file is gone is passed over: Delta deletes old ones after a checkpoint."""
    for version in range(since + 1, until + 1):
        path = table.delta_version(version)
        try:
            actions = _ACTIONS.decode_lines(store.read(path))
        except FileNotFoundError:
            continue
        except msgspec.MsgspecError as e:
            raise ExportError(
                f"{mark(path)}: is not a version of a Delta table that can be read ({e})",
                "the table itself is as it was: restore that file, or remove the directory it is in and "
                "run the same command, which exports all files anew",
            ) from e
        changes = any(action.add is not None or action.remove is not None for action in actions)
        is_own = any(action.txn is not None and action.txn.app_id == app_id for action in actions)
        if changes and not is_own:
            raise ExportError(
                f"{mark(path)}: another program has changed the files of this Delta table",
                "the table itself is as it was: write only to the table, never to its export; to export "
                "all files anew, remove the directory that this file is in and run the same command",
            )


_DECODER, _ACTIONS = msgspec.json.Decoder(Cursor), msgspec.json.Decoder(_Action)
