"""A pyarrow dataset of exactly the files of a snapshot, with the values of partition columns.

The values come from the names in the log, not from the places: an old file that a job has kept is at
another place, with another suffix. PyArrow is optional, and imported with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_
from typing import Any

from ray_committer.errors import SettingsError, mark
from ray_committer.protocol.file_list import partition_of
from ray_committer.protocol.partition_names import partition_values
from ray_committer.protocol.table_entry import PartitionColumn
from ray_committer.protocol.table_paths import KEPT_SUFFIX
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.output import file_system, fsspec_name

try:
    import pyarrow as pa
    import pyarrow.dataset as pads
    from pyarrow import fs as pafs
except ImportError as e:
    raise ImportError(
        f"{e.name} is not installed; to read with Arrow, install ray-committer[arrow] on all nodes"
    ) from e

FORMATS = {
    "parquet": "ParquetFileFormat",
    "orc": "OrcFileFormat",
    "feather": "FeatherFileFormat",
    "csv": "CsvFileFormat",
    "json": "JsonFileFormat",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Arrow's types of Spark's; a timestamp in a directory's name is local time without a zone."""


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of a snapshot: its `path` as the log names it, and its `place` on the store."""

    path: str
    place: str


@dataclass(frozen=True)
class FileReader:
    """How to read the files of a snapshot; can be sent to other processes.

    columns: the partition columns and their types.
    schema: the dataset's; without one, the first file's, with the partition columns.
    """

    spec: StoreSpec
    format: str
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    schema: pa.Schema | None = None

    def dataset(self, files: Sequence[PlacedFile]) -> pads.FileSystemDataset:
        """The dataset of these files, in their order."""
        fragments = list(self._fragments(files))
        schema = self.schema or self._schema_of(fragments)
        return pads.FileSystemDataset(fragments, schema, self._format, self._file_system)

    def _fragments(self, files: Sequence[PlacedFile]) -> Iterator[pads.FileFragment]:
        values: dict[str, Any] = {}
        for file in files:
            directory = partition_of(file.path)
            # Once per directory: a cast per file would take longer than opening it.
            if directory not in values:
                values[directory] = self._values_of(file)
            place = self._place(file)
            yield self._format.make_fragment(place, self._file_system, values[directory])

    def _values_of(self, file: PlacedFile) -> Any:
        """The expression that holds for all rows of a partition."""
        texts = partition_values(file.path).items()
        known = [
            pads.field(name).is_null()
            if text is None
            else pads.field(name) == value_of(name, text, self.columns[name])
            for name, text in texts
        ]
        return reduce(and_, known) if known else pads.scalar(True)

    def _schema_of(self, fragments: Sequence[pads.FileFragment]) -> pa.Schema:
        of_file = fragments[0].physical_schema if fragments else pa.schema([])
        fields = [column for column in of_file if column.name not in self.columns]
        return pa.schema([*fields, *(pa.field(*column) for column in self.columns.items())])

    def _place(self, file: PlacedFile) -> str:
        if self.spec.scheme == "file":
            return file.place
        if self.spec.scheme == "s3":
            return f"{self.spec.authority}{file.place}"
        return fsspec_name(self._fsspec, self.spec, file.place)

    @cached_property
    def _format(self) -> pads.FileFormat:
        return getattr(pads, FORMATS[self.format])()

    @cached_property
    def _fsspec(self) -> Any:
        return file_system(self.spec, "read")

    @cached_property
    def _file_system(self) -> pafs.FileSystem:
        if self.spec.scheme == "file":
            return pafs.LocalFileSystem()
        if self.spec.scheme == "s3":
            from ray_committer.stores.s3.arrow import arrow_file_system

            native: pafs.FileSystem = arrow_file_system(self.spec)
            return native
        return pafs.PyFileSystem(pafs.FSSpecHandler(self._fsspec))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("spec", "format", "columns", "schema")}


def reader_of(
    spec: StoreSpec,
    files: Sequence[PlacedFile],
    declared: Sequence[PartitionColumn],
    *,
    format: str | None = None,  # noqa: A002 - what pyarrow calls it
    schema: pa.Schema | None = None,
) -> FileReader:
    """The way to read some files of a table with `declared` partition columns.

    A column has the type of `schema`, else the declared one; else it holds integers if all of its values
    are, and strings if not. `SettingsError` if the format is not known, or cannot be read from there.
    """
    types = {column.name: column.type for column in declared}
    columns = {
        name: _type_of(name, types.get(name), texts, schema)
        for name, texts in texts_of((file.path for file in files), types).items()
    }
    chosen = format or _format_of(files)
    if chosen not in FORMATS:
        raise SettingsError(f"format {chosen!r}: is not one of {', '.join(FORMATS)}", "choose one")
    _refuse_compressed(files, chosen)
    return FileReader(spec, chosen, columns, schema)


def texts_of(paths: Iterable[str], declared: Iterable[str]) -> dict[str, set[str | None]]:
    """The texts of the values of each partition column of some files; the `declared` columns first."""
    texts: dict[str, set[str | None]] = {name: set() for name in declared}
    for directory in dict.fromkeys(map(partition_of, paths)):
        for name, text in partition_values(f"{directory}/").items():
            texts.setdefault(name, set()).add(text)
    return texts


def value_of(name: str, text: str, kind: pa.DataType) -> pa.Scalar:
    """The value in the name of a directory; `SettingsError` if it is not one of its column's type."""
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except pa.ArrowException as e:
        raise SettingsError(
            f"partition column {name!r}: {text!r} is not a value of type {kind} ({e})",
            "give the column another type in `schema`",
        ) from e


def arrow_type(name: str, declared: str) -> pa.DataType:
    """Arrow's type of a declared partition column; `SettingsError` if it is not known."""
    kind = declared.lower().replace(" ", "")
    if kind.startswith("decimal(") and kind.endswith(")"):
        precision, _, scale = kind[len("decimal(") : -1].partition(",")
        return pa.decimal128(int(precision), int(scale or 0))
    if kind.startswith(("varchar(", "char(")):
        return pa.string()
    if kind not in _TYPES:
        raise SettingsError(
            f"partition column {name!r}: type {declared} is not known here",
            "give the column a type in `schema`",
        )
    return _TYPES[kind]


def _type_of(
    name: str, declared: str | None, texts: set[str | None], schema: pa.Schema | None
) -> pa.DataType:
    if schema is not None and name in schema.names:
        return schema.field(name).type
    if declared is not None:
        return arrow_type(name, declared)
    values = {text for text in texts if text is not None}
    if not values or not all(map(_is_integer, values)):
        return pa.string()
    numbers = [int(text) for text in values]
    for kind, limit in ((pa.int32(), 2**31), (pa.int64(), 2**63)):
        if -limit <= min(numbers) and max(numbers) < limit:
            return kind
    return pa.string()


def _is_integer(text: str) -> bool:
    """Whether an integer has just this text: ``01`` would come back as 1."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(text) < 20 and str(int(text)) == text


def _format_of(files: Sequence[PlacedFile]) -> str:
    """The format that the names of all files end with; parquet if there are none."""
    suffixes = {_suffix(file.path) for file in files} or {"parquet"}
    if len(suffixes) > 1:
        raise SettingsError(
            f"files with the suffixes {', '.join(sorted(suffixes))}: cannot be one dataset",
            "pass the `format` of all files, or read the directories one by one",
        )
    return suffixes.pop()


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return name.rpartition(".")[2]


def _refuse_compressed(files: Sequence[PlacedFile], chosen: str) -> None:
    """Refuse kept text files that are compressed: pyarrow knows that only by the suffix of a place."""
    if chosen not in ("csv", "json"):
        return
    for file in files:
        if file.place.endswith(KEPT_SUFFIX) and file.path.endswith(_COMPRESSED):
            raise SettingsError(
                f"{mark(file.place)}: is a compressed {chosen} file that was replaced and kept, which "
                "pyarrow cannot read under this name",
                "copy it under its old name, or read a version that it is still part of",
            )
