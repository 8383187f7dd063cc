"""Rewrite some Parquet files of one directory as one file: the same rows, in the order of the files.

Files are written together only if their schemas and their metadata are the same, and only if the new
file has them too. All others stay as they are. Rows are streamed, so memory holds one row group.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

from ray_committer.errors import CommitAbortedError, CommitCancelledError
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stages.compact_table import Bin, Rewritten
from ray_committer.stages.table_job import write_task
from ray_committer.stages.task_files import TaskFiles
from ray_committer.stores.output import open_input
from ray_committer.work.worker import Worker
from ray_committer.writers.arrow import pa, parquet

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""How much is kept before it is written as a row group, as it is in memory."""
BATCH_ROWS = 16 * 1024
BINS_AT_ONCE = 4
"""How many bins a process rewrites at the same time."""

_ARROW_SCHEMA = b"ARROW:schema"
_SPARK = b"org.apache.spark.version"
_slots = threading.BoundedSemaphore(BINS_AT_ONCE)

Key = tuple[str, tuple[tuple[bytes, bytes], ...]]
"""What files must have in common to be one file: the structure of the schema, and the metadata."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to rewrite, by its footer."""

    file: ReplacedFile
    key: Key
    schema: pa.Schema
    options: Mapping[str, Any]
    rows: int
    is_exact: bool


def rewrite_bin(worker: Worker, one: Bin) -> Rewritten:
    """Work: rewrite the files of a bin as one file for each schema that several of them have."""
    with _slots:
        if worker.cancelled.is_set():
            return Rewritten()
        groups: dict[Key, list[_Source]] = {}
        for file in one.files:
            source = _look(worker, file)
            groups.setdefault(source.key, []).append(source)
        left = {
            source.file.path: reason
            for group in groups.values()
            if len(group) > 1 and (reason := _reason_to_leave(group))
            for source in group
        }
        chosen = [group for group in groups.values() if len(group) > 1]
        chosen = [group for group in chosen if group[0].file.path not in left]
        if not chosen:
            return Rewritten(left=left)
        directory = one.directory

        def write(files: TaskFiles, stem: str) -> None:
            for number, group in enumerate(chosen):
                name = f"part-{stem}-c{number:03d}.parquet"
                _write(worker, files, join(directory, name) if directory else name, group)

        task = write_task(worker, one.number, write)
        sources = tuple(source.file for group in chosen for source in group)
        return Rewritten((task,), sources, left)


def _look(worker: Worker, file: ReplacedFile) -> _Source:
    with _reading(worker, file) as opened:
        found = _open(opened)
        metadata, schema = found.metadata, found.schema
        own = metadata.metadata or {}
        columns = [schema.column(number) for number in range(len(schema))]
        has_int96 = any(column.physical_type == "INT96" for column in columns)
        decimals = any(
            column.logical_type.type == "DECIMAL" and column.physical_type.startswith("INT")
            for column in columns
        )
        options: dict[str, Any] = {
            "compression": _codecs(metadata),
            "use_deprecated_int96_timestamps": has_int96,
            "store_schema": _ARROW_SCHEMA in own,
        }
        if decimals:
            options["store_decimal_as_integer"] = True
        return _Source(
            file,
            (_structure(schema), tuple(sorted(own.items()))),
            found.schema_arrow,
            options,
            metadata.num_rows,
            not has_int96 or _SPARK in own,  # Spark's are microseconds, others can be nanoseconds
        )


def _reason_to_leave(group: Sequence[_Source]) -> str | None:
    """Why files cannot be rewritten without a change; None if they can."""
    if not group[0].is_exact:
        return "it has timestamps as INT96 that Spark has not written"
    written = BytesIO()
    try:
        with _writer(written, group[0], []) as writer:
            writer.write_table(group[0].schema.empty_table())
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as e:
        return f"pyarrow cannot write its schema ({e})"
    if _key(parquet.ParquetFile(written).metadata) != group[0].key:
        return "pyarrow would write another schema or other metadata"
    return None


def _write(worker: Worker, files: TaskFiles, name: str, group: Sequence[_Source]) -> None:
    rows, expected = 0, sum(source.rows for source in group)
    footers: list[parquet.FileMetaData] = []
    with files.open(name) as sink, _writer(sink, group[0], footers) as writer:
        for table in _row_groups(worker, group):
            rows += table.num_rows
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
    found = footers[0] if files.uploads is not None else _footer(worker, files.path(name))
    if (rows, found.num_rows, _key(found)) != (expected, expected, group[0].key):
        raise CommitAbortedError(
            f"{group[0].file.path}: was not rewritten as it is ({found.num_rows} of {expected} rows of "
            f"{len(group)} files)",
            "nothing was changed: another program may have changed a file meanwhile; report this if it "
            "happens again",
        )


def _footer(worker: Worker, path: str) -> parquet.FileMetaData:
    """The footer of a file that was just written. An upload cannot be read, but the store has checked
    the sum of each part: there the footer is the one that was written."""
    with open_input(worker.store.spec, path) as written:
        return parquet.ParquetFile(written).metadata


def _row_groups(worker: Worker, group: Sequence[_Source]) -> Iterator[pa.Table]:
    """The rows of the files, in parts that are large enough for a row group; one even without rows."""
    waiting, held = [group[0].schema.empty_table()], 0
    for source in group:
        with _reading(worker, source.file) as opened:
            for batch in _open(opened).iter_batches(BATCH_ROWS):
                if worker.cancelled.is_set():
                    raise CommitCancelledError(
                        f"{source.file.path}: was not rewritten, because the job was cancelled",
                        "nothing was changed: run the same command again",
                    )
                waiting.append(pa.Table.from_batches([batch]).cast(group[0].schema))
                held += batch.nbytes
                if held >= ROW_GROUP_BYTES:
                    yield pa.concat_tables(waiting)
                    waiting, held = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@contextmanager
def _reading(worker: Worker, file: ReplacedFile) -> Iterator[BinaryIO]:
    """A file open for reading; `CommitAbortedError` if it is damaged."""
    with open_input(worker.store.spec, file.path) as opened:
        try:
            yield opened
        except pa.ArrowException as e:
            raise CommitAbortedError(
                f"{file.path}: cannot be read as Parquet ({e})",
                "nothing was changed: repair this file, or name the partitions to rewrite, without that "
                "of this file",
            ) from e


def _open(opened: BinaryIO) -> parquet.ParquetFile:
    return parquet.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)


@contextmanager
def _writer(
    sink: BinaryIO, source: _Source, footers: list[parquet.FileMetaData]
) -> Iterator[parquet.ParquetWriter]:
    """A writer of files like a source; it adds its footer to `footers` when it is closed."""
    options = {**source.options, "metadata_collector": footers}
    with parquet.ParquetWriter(sink, source.schema, **options) as writer:
        if not source.options["store_schema"]:  # with the schema, its metadata is written
            writer.add_key_value_metadata(dict(source.key[1]))
        yield writer


def _codecs(metadata: parquet.FileMetaData) -> Any:
    """The compression of each column in the first row group."""
    if not metadata.num_row_groups:
        return "snappy"
    first = metadata.row_group(0)
    columns = [first.column(number) for number in range(first.num_columns)]
    return {column.path_in_schema: _NAMES.get(column.compression, "snappy") for column in columns}


def _key(found: parquet.FileMetaData) -> Key:
    own = found.metadata or {}
    return _structure(found.schema), tuple(sorted(own.items()))


def _structure(schema: parquet.ParquetSchema) -> str:
    """The schema as text, without the address of the object and the name of the root."""
    return str(schema).split("\n", 2)[2]


_NAMES = {
    "UNCOMPRESSED": "none",
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4",
    "LZ4_RAW": "lz4",
}
