"""The partition columns of a table: their names and types, and the value of each file.

A declared type comes from the table's definition. Without one, it is what Spark takes from the names of
the directories. Source: Spark ``PartitioningUtils.inferPartitionColumnValue``; a number with more digits
than a long has is a string here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ray_committer.errors import ExportError, SettingsError, mark
from ray_committer.interop.readers.arrow import arrow_type, texts_of, value_of
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.partition_names import partition_values
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_entry import PartitionColumn

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(NaN|Infinity)", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?", re.ASCII)
_ADVICE = (
    "the table itself is as it was: if the type was declared with `table init`, drop this partition; "
    "then remove the exported table and run the same command, which exports all files anew"
)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition columns of an export of the table at `root`, in order, with their types."""

    root: str
    types: Mapping[str, pa.DataType]
    _known: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def texts(self, file: ListedFile) -> dict[str, str | None]:
        """The value of each column for a file, as Delta writes it; `ExportError` if one does not fit."""
        directory = partition_of(file.path)
        if directory not in self._known:
            self._known[directory] = dict(self._read(file))
        return self._known[directory]

    def _read(self, file: ListedFile) -> Iterator[tuple[str, str | None]]:
        values = partition_values(file.path)
        if values.keys() != self.types.keys():
            raise ExportError(
                f"{mark(join(self.root, file.path))}: is in a directory with {_named(values)}, but the "
                f"files of the table have {_named(self.types)}",
                "the table itself is as it was: such a table cannot be exported",
            )
        for name, kind in self.types.items():
            yield name, _text(_value(join(self.root, file.path), name, values[name], kind))


def partitioning_of(
    root: str, files: Iterable[ListedFile], declared: Sequence[PartitionColumn]
) -> Partitioning:
    """The partition columns of a table with these files; `ExportError` if a declared type is unknown."""
    declared_types = {column.name: column.type for column in declared}
    types = {
        name: _declared(name, declared_types[name]) if name in declared_types else inferred(texts)
        for name, texts in texts_of((file.path for file in files), declared_types).items()
    }
    return Partitioning(root, types)


def inferred(texts: Iterable[str | None]) -> pa.DataType:
    """The type that Spark would give a column with these values."""
    kinds = {_kind(text) for text in texts if text is not None}
    # The widest first: it is the type if each other value can be read as it.
    for kind, narrower in _WIDER.items():
        if kind in kinds and kinds <= {kind, *narrower}:
            return kind
    return pa.string()


_WIDER: Mapping[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.float64(): (pa.int32(),),
    pa.int64(): (pa.int32(),),
    pa.int32(): (),
    pa.timestamp("us"): (pa.date32(),),
    pa.date32(): (),
}
"""Each type, the widest first, with those that Spark reads as it. A double beside a long is a string."""


def _kind(text: str) -> pa.DataType:
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return pa.int32() if -(2**31) <= int(text) < 2**31 else pa.int64()
    for pattern, kind in ((_NUMBER, pa.float64()), (_DATE, pa.date32()), (_TIME, pa.timestamp("us"))):
        if pattern.fullmatch(text) and not (kind == pa.float64() and text.strip("+-").isdigit()):
            return kind if _is_value(text, kind) else pa.string()
    return pa.string()


def _is_value(text: str, kind: pa.DataType) -> bool:
    try:
        value_of("", text, kind)
    except SettingsError:
        return False
    return True


def _value(path: str, name: str, text: str | None, kind: pa.DataType) -> Any:
    if text is None:
        return None
    # Spark cannot write an empty text: it writes `__HIVE_DEFAULT_PARTITION__`. Delta would read it as
    # null.
    if not text:
        raise ExportError(f"{mark(path)}: partition column {name!r} has an empty text", _ADVICE)
    try:
        return value_of(name, text, kind).as_py()
    except SettingsError as e:
        raise ExportError(
            f"{mark(path)}: partition column {name!r} has type {kind}, and {text!r} is not such a value",
            _ADVICE,
        ) from e


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def _declared(name: str, text: str) -> pa.DataType:
    try:
        return arrow_type(name, text)
    except SettingsError as e:
        raise ExportError(e.parts[0], "the table itself is as it was: it cannot be exported") from e


def _named(columns: Iterable[str]) -> str:
    names = ", ".join(columns)
    return f"the partition columns {names}" if names else "no partition columns"
