"""Write Arrow tables to files of a task attempt: Parquet, CSV or JSON lines, in Hive-style directories.

Ray Data's sink and `write_transactional` share it. Rows are collected per directory until they fill a
row group, within a limit of memory and of open files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from operator import itemgetter
from typing import Any, BinaryIO, Protocol

import msgspec

from ray_committer.writers.arrow import csv, pa, parquet
from ray_committer.writers.hive_partitions import Choose, is_partition_type, split_by_partition

BUFFER_BYTES = 128 * 1024 * 1024
"""How much is kept for all directories together before it is written."""
FILE_BYTES = 32 * 1024 * 1024
"""How much is kept for one directory; a Parquet row group is about as large."""
THREADS = 4
"""How many files a task encodes and writes at the same time."""
OPEN_FILES = 64
"""At this number of open files all are closed; later rows of their directories go to new files."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of files: their `format`, the columns that make directories, and the `options` of
    ``pyarrow.parquet.ParquetWriter`` or ``pyarrow.csv.WriteOptions``; JSON has none. A task begins
    another file of a directory after `max_rows_per_file`."""

    format: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    max_rows_per_file: int | None = None

    def __post_init__(self) -> None:
        if self.format not in _WRITERS:
            raise ValueError(f"format {self.format!r}: is not one of {', '.join(_WRITERS)}")
        if isinstance(self.partition_by, str) or len(set(self.partition_by)) < len(self.partition_by):
            raise ValueError(f"partition_by {self.partition_by!r}: must be a list of different columns")
        if self.max_rows_per_file is not None and self.max_rows_per_file < 1:
            raise ValueError(f"max_rows_per_file {self.max_rows_per_file}: must be at least 1")
        _try_writer(self, pa.schema([("a", pa.int64())]))

    def check(self, schema: pa.Schema) -> None:
        """Raise ``ValueError`` if data with `schema` cannot be written in this layout."""
        for column in self.partition_by:
            if schema.names.count(column) != 1:
                raise ValueError(f"partition column {column!r}: is not one of {', '.join(schema.names)}")
            if not is_partition_type(schema.field(column).type):
                raise ValueError(
                    f"partition column {column!r}: is of type {schema.field(column).type}, which cannot "
                    f"name directories"
                )
        if len(self.partition_by) == len(schema.names):
            raise ValueError(f"partition_by {list(self.partition_by)}: leaves no column for the files")
        _try_writer(self, self.file_schema(schema))

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the files themselves, without the partition columns."""
        return pa.schema([column for column in schema if column.name not in self.partition_by])


def write_tables(
    tables: Iterable[pa.Table],
    layout: FileLayout,
    open_file: Callable[[str], BinaryIO],
    *,
    stem: str,
    schema: pa.Schema | None = None,
    choose: Choose = itemgetter(0),
) -> tuple[str, ...]:
    """Write all rows to new files, opened by their paths below the destination; return these paths.

    Files are called ``part-<stem>-<number>``, so each attempt needs its own `stem`. A table with other
    columns than the table before, or other types, goes to its own files. Without rows and without
    partitions, an empty file with `schema` is written, if that is given, so that readers know the
    columns. `choose` is as for `split_by_partition`.
    """
    has_rows, checked = False, None
    with _Directories(layout, open_file, stem) as directories:
        for table in tables:
            # A table without rows can lack types: Ray Data sends such blocks between full ones.
            if table.num_rows and table.schema != checked:
                layout.check(table.schema)
                checked = table.schema
            has_rows = has_rows or table.num_rows > 0
            for directory, part in split_by_partition(table, layout.partition_by, choose):
                directories.add(directory, part)
        if not has_rows and schema is not None and not layout.partition_by:
            directories.add("", schema.empty_table())
    return tuple(directories.files)


class _Directories:
    """The open files and the rows that wait for them, by directory."""

    def __init__(self, layout: FileLayout, open_file: Callable[[str], BinaryIO], stem: str) -> None:
        self._layout, self._open_file, self._stem = layout, open_file, stem
        self._pool = ThreadPoolExecutor(THREADS)
        self._waiting: dict[str, list[pa.Table]] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._bytes: dict[str, int] = {}
        self._all_bytes = 0
        self._files: dict[str, _OpenFile] = {}
        self.files: list[str] = []

    def __enter__(self) -> _Directories:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._pool:
            try:
                if kind is None:
                    self._write_all()
                    self._close_files()
            finally:
                for file in self._files.values():
                    # Also if `_close_files` failed; before the pool ends: its threads may still write.
                    file.discard()

    def add(self, directory: str, table: pa.Table) -> None:
        schema = _common(self._schemas.get(directory, table.schema), table.schema)
        if schema is None:
            self._write(directory)
        self._schemas[directory] = schema or table.schema
        self._waiting.setdefault(directory, []).append(table)
        self._bytes[directory] = self._bytes.get(directory, 0) + table.nbytes
        self._all_bytes += table.nbytes
        if self._bytes[directory] > FILE_BYTES:
            self._write(directory)
            # Only when its next part is ready: up to then a thread encodes while this one collects rows.
            self._files[directory].wait()
        elif self._all_bytes > BUFFER_BYTES:
            self._write_all()

    def _write_all(self) -> None:
        for directory in list(self._waiting):
            self._write(directory)
        for file in self._files.values():
            file.wait()

    def _write(self, directory: str) -> None:
        table = pa.concat_tables(self._waiting.pop(directory), promote_options="default")
        self._schemas.pop(directory)
        self._all_bytes -= self._bytes.pop(directory)
        file = self._file(directory, table.schema)
        while table.num_rows > file.room:
            part, table = table.slice(0, file.room), table.slice(file.room)
            file.write(part)
            file = self._file(directory, table.schema)
        file.write(table)

    def _file(self, directory: str, schema: pa.Schema) -> _OpenFile:
        """Return a file with room for a row, and for that schema."""
        file = self._files.get(directory)
        if file is None:
            return self._open(directory, schema)
        if file.room and _common(file.schema, schema) == file.schema:
            return file
        self._files.pop(directory).close()
        return self._open(directory, schema)

    def _open(self, directory: str, schema: pa.Schema) -> _OpenFile:
        if len(self._files) >= OPEN_FILES:
            self._close_files()
        name = f"part-{self._stem}-c{len(self.files):03d}.{self._layout.format}"
        path = f"{directory}/{name}" if directory else name
        sink = self._open_file(path)
        self.files.append(path)
        self._files[directory] = _OpenFile(sink, schema, self._layout, self._pool)
        return self._files[directory]

    def _close_files(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


def _common(schema: pa.Schema, second: pa.Schema) -> pa.Schema | None:
    """Return the schema that tables of both have in one file; None if there is none. Columns without any
    value have no type in Arrow, and take the type of the other. Their order is the first one's."""
    if schema == second:
        return schema
    if sorted(schema.names) != sorted(second.names):
        return None
    try:
        return pa.unify_schemas([schema, second])
    except pa.ArrowException:
        return None


class _OpenFile:
    """One file, with one schema, and `room` for so many rows; threads of a `pool` write it."""

    def __init__(
        self, sink: BinaryIO, schema: pa.Schema, layout: FileLayout, pool: ThreadPoolExecutor
    ) -> None:
        self.schema = schema
        self.room = layout.max_rows_per_file or sys.maxsize
        self._sink, self._pool = sink, pool
        self._writer = _WRITERS[layout.format](sink, schema, layout.options)
        self._last: Future[None] | None = None

    def write(self, table: pa.Table) -> None:
        """Begin to write rows once those before are written; `wait` raises the error if it fails."""
        self.wait()
        self.room -= table.num_rows
        self._last = self._pool.submit(self._write, table)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        with self._sink:
            self.wait()
            self._writer.close()

    def discard(self) -> None:
        """Close a file whose task attempt has failed; nobody will read it."""
        with suppress(Exception):
            self.close()

    def _write(self, table: pa.Table) -> None:
        if table.schema != self.schema:
            # Another order of the same columns, or a column of nulls without a type.
            table = table.select(self.schema.names).cast(self.schema)
        self._writer.write_table(table)


class _TableWriter(Protocol):
    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _JsonWriter:
    """One line per row; bytes in Base64, NaN and infinities as null, which JSON does not have."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")

    def write_table(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=10_000):
            rows = batch.to_pylist(maps_as_pydicts="strict")
            self._sink.write(self._encoder.encode_lines(rows))

    def close(self) -> None:
        pass


def _parquet(sink: BinaryIO, schema: pa.Schema, options: Mapping[str, Any]) -> _TableWriter:
    writer: _TableWriter = parquet.ParquetWriter(sink, schema, **options)
    return writer


def _csv(sink: BinaryIO, schema: pa.Schema, options: Mapping[str, Any]) -> _TableWriter:
    chosen = csv.WriteOptions(**options)
    writer: _TableWriter = csv.CSVWriter(sink, schema, write_options=chosen)
    return writer


def _json(sink: BinaryIO, _: pa.Schema, options: Mapping[str, Any]) -> _TableWriter:
    if options:
        raise ValueError(f"it has no options, but {', '.join(options)} was given")
    return _JsonWriter(sink)


_WRITERS: dict[str, Callable[[BinaryIO, pa.Schema, Mapping[str, Any]], _TableWriter]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}


def _try_writer(layout: FileLayout, schema: pa.Schema) -> None:
    """Raise ``ValueError`` if the format does not support the options or the types of the columns."""
    try:
        writer = _WRITERS[layout.format](BytesIO(), schema, layout.options)
        # Pyarrow notices some types only when it writes.
        writer.write_table(schema.empty_table())
        writer.close()
    except (TypeError, ValueError, pa.ArrowException) as e:
        raise ValueError(f"format {layout.format!r} cannot be written like this: {e}") from e
