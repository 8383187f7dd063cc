"""One Iceberg table without a catalog: open it, make it, and write one snapshot of it.

The files are those of Iceberg's Hadoop tables, ``metadata/v1.metadata.json`` and ``version-hint.text``,
in a directory of their own, so that readers of the table's directory do not take them for data. A
version of the metadata is never replaced: of two processes that write the same one, one succeeds.

Iceberg's library is optional, and imported with this module. Source: Iceberg's
``HadoopTableOperations``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from ray_committer.errors import ExportError
from ray_committer.exports.beaten import BeatenError
from ray_committer.exports.columns import Partitioning
from ray_committer.exports.files import Change
from ray_committer.exports.s3_clients import iceberg_s3_properties
from ray_committer.exports.schemas import normal_schema
from ray_committer.job_files.settle import put
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_paths import ICEBERG, TablePlaces
from ray_committer.stores.base import StoreOperations, list_anew
from ray_committer.stores.registry import fsspec_url
from ray_committer.tables.put import Draft

try:
    from pyiceberg.exceptions import ValidationError, ValidationException
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
    from pyiceberg.schema import Schema, assign_fresh_schema_ids
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.table.update import update_table_metadata
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record
except ImportError as e:
    raise ImportError(f"{e.name} is not installed, and an export to Iceberg needs it") from e

TABLE_ID = "ray_committer.table-id"
"""The property of the Iceberg table that names the table with a log."""
VERSION = "ray_committer.version"
"""The property of a snapshot with the version of the table that it is."""
JOB = "ray_committer.job"
"""The property of a snapshot with the job that was committed; empty for a first export."""
FIRST_FIELD = 1_000
"""The id of the first field of a partition."""

_METADATA = re.compile(r"v([0-9]+)\.metadata\.json")


class Iceberg:
    """An Iceberg table, as it was when it was opened or when its last snapshot was written here."""

    def __init__(self, table: Table, version: int, store: StoreOperations, places: TablePlaces) -> None:
        self._table, self.version, self._store, self._places = table, version, store, places

    @property
    def id(self) -> str:
        """The id of this Iceberg table; one that is made at the same place later has another."""
        return str(self._table.metadata.table_uuid)

    @property
    def table_id(self) -> str | None:
        """The table with a log that it is an export of; None if another program has made it."""
        found: str | None = self._table.properties.get(TABLE_ID)
        return found

    @property
    def exported(self) -> int | None:
        """The last version of the table that it has; None if it has none."""
        snapshot = self._table.current_snapshot()
        text = None if snapshot is None else snapshot.summary.get(VERSION)
        return None if text is None else int(text)

    @property
    def is_changed_by_others(self) -> bool:
        """Whether another program has written a snapshot."""
        return self._table.current_snapshot() is not None and self.exported is None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are in the files."""
        return pa.schema([one for one in self._columns if one.name not in self.partitioning.types])

    @cached_property
    def partitioning(self) -> Partitioning:
        names = [field.name for field in self._table.spec().fields]
        types = {name: self._columns.field(name).type for name in names}
        return Partitioning(self._places.destination, types)

    @cached_property
    def _columns(self) -> pa.Schema:
        return _arrow(self._table.schema())

    def commit(self, change: Change, rows: Sequence[tuple[ListedFile, int]]) -> None:
        """Write one snapshot; `BeatenError` if another process has written the next metadata.

        rows: the files to add, with the number of rows in each.
        """
        transaction = self._table.transaction()
        properties = {VERSION: str(change.version), JOB: change.job_id}
        update = transaction.update_snapshot(snapshot_properties=properties)
        old = self._named({self._url(file) for file in change.removed}) if change.removed else []
        try:
            with update.overwrite() if old else update.fast_append() as snapshot:
                for data_file in old:
                    snapshot.delete_data_file(data_file)
                for data_file in self._data_files(rows):
                    snapshot.append_data_file(data_file)
        except ValidationException as e:  # its threads share a filter of manifests, and can miss a file
            raise BeatenError(str(e)) from e
        transaction.commit_transaction()

    def save_hint(self) -> None:
        """Name this version to readers, if a process that died or was slow has left the number of an
        older one; idempotent."""
        try:
            found = self._store.read(_hint(self._places)).strip()
        except FileNotFoundError:
            found = b""
        if not found.isdigit() or int(found) < self.version:
            _save_hint(self._store, self._places, self.version)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Put the next version of the metadata; the library calls it, as that of a catalog."""
        for requirement in requirements:
            requirement.validate(table.metadata)
        location = table.metadata_location
        metadata = update_table_metadata(table.metadata, updates, metadata_location=location)
        _put(self._store, self._places, self.version + 1, metadata)
        self.version += 1
        url = _url(self._store, self._places, self.version)
        return CommitTableResponse(metadata=metadata, **{"metadata-location": url})

    def _delete_old_metadata(self, *_: Any) -> None:
        """Keep all versions; the library asks for this after each one."""

    def _named(self, urls: set[str]) -> list[DataFile]:
        """The files of the last snapshot that have these URLs."""
        snapshot = self._table.current_snapshot()
        io = self._table.io
        return [
            entry.data_file
            for manifest in ([] if snapshot is None else snapshot.manifests(io))
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
            if entry.data_file.file_path in urls
        ]

    def _data_files(self, rows: Sequence[tuple[ListedFile, int]]) -> Iterator[DataFile]:
        spec, schema = self._table.spec(), self._table.schema()
        for file, count in rows:
            values = self.partitioning.values(file)
            record = [partition_record_value(one, values[one.name], schema) for one in spec.fields]
            yield DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=self._url(file),
                file_format=FileFormat.PARQUET,
                partition=Record(*record),
                record_count=count,
                file_size_in_bytes=file.z,
                spec_id=spec.spec_id,
            )

    def _url(self, file: ListedFile) -> str:
        return fsspec_url(self._store.spec, join(self._places.destination, file.p))


def open_iceberg(store: StoreOperations, table: TablePlaces) -> Iceberg | None:
    """Open the last version of a table's Iceberg export; None if there is none."""
    try:
        names = [status.name for status in list_anew(store, _directory(table))]
    except FileNotFoundError:
        return None
    found = [int(match[1]) for name in names if (match := _METADATA.fullmatch(name))]
    if not found:
        return None
    version = max(found)
    url = _url(store, table, version)
    io = load_file_io(iceberg_s3_properties(store.spec) if store.spec.scheme == "s3" else {}, url)
    opened: Any = Table(("table",), _read(store, table, version), url, io, None)
    opened.catalog = iceberg = Iceberg(opened, version, store, table)
    return iceberg


def create_iceberg(
    store: StoreOperations,
    table: TablePlaces,
    columns: pa.Schema,
    partitioning: Partitioning,
    table_id: str,
) -> None:
    """Make an Iceberg table without files; `BeatenError` if there is one.

    columns: those that are in the files, and not the partition columns.
    """
    every = pa.schema([*columns, *(pa.field(*one) for one in partitioning.types.items())])
    schema = _iceberg(every)
    fields = [_field(schema, name, at) for at, name in enumerate(partitioning.types)]
    properties = {
        TABLE_ID: table_id,
        "schema.name-mapping.default": schema.name_mapping.model_dump_json(),
    }
    if store.capabilities.has_directories:
        store.mkdirs(_directory(table))
    location = fsspec_url(store.spec, join(table.destination, ICEBERG))
    spec = PartitionSpec(*fields)
    metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, location, properties, uuid.uuid4())
    _put(store, table, 1, metadata)


def as_iceberg(columns: pa.Schema) -> pa.Schema:
    """Columns with the types that Iceberg has, which has fewer integers."""
    return _arrow(_iceberg(columns))


def _iceberg(columns: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(columns))


def _arrow(schema: Schema) -> pa.Schema:
    return normal_schema(schema_to_pyarrow(schema, include_field_ids=False), "")


def _field(schema: Schema, name: str, at: int) -> PartitionField:
    source = schema.find_field(name).field_id
    return PartitionField(source, FIRST_FIELD + at, IdentityTransform(), name)


def _put(store: StoreOperations, table: TablePlaces, version: int, metadata: TableMetadata) -> None:
    data = metadata.model_dump_json().encode()
    with Draft(store, table) as draft:
        if draft.put(_path(table, version), data) != data:
            raise BeatenError(f"another process has written version {version}")
    _save_hint(store, table, version)


def _save_hint(store: StoreOperations, table: TablePlaces, version: int) -> None:
    """Name the last version to readers. Another process can have written a later one, and its number
    before this one: so whoever writes a number looks for the next version after that."""
    while True:
        text = str(version).encode()
        put(store, _hint(table), text, temporary=table.temporary(new_nonce()))
        if store.get_status(_path(table, version + 1)) is None:
            return
        version += 1


def _read(store: StoreOperations, table: TablePlaces, version: int) -> TableMetadata:
    path = _path(table, version)
    try:
        return TableMetadataUtil.parse_raw(store.read(path).decode())
    except (ValidationError, ValueError) as e:
        raise ExportError(
            f"{path}: cannot be read as the metadata of an Iceberg table",
            "the table itself is as it was: restore that file, or remove the directory of the Iceberg "
            "table and run the same command, which exports all files anew",
        ) from e


def _directory(table: TablePlaces) -> str:
    return join(table.destination, ICEBERG, "metadata")


def _hint(table: TablePlaces) -> str:
    return join(_directory(table), "version-hint.text")


def _path(table: TablePlaces, version: int) -> str:
    return join(_directory(table), f"v{version}.metadata.json")


def _url(store: StoreOperations, table: TablePlaces, version: int) -> str:
    return fsspec_url(store.spec, _path(table, version))
