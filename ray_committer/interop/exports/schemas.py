"""The columns of a Parquet file as Delta names them, from its footer.

The types are those that Spark gives the columns when it reads the file, as Arrow's. All columns can be
null, as they can for Spark. Source: Spark ``ParquetSchemaConverter``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from ray_committer.errors import ExportError, mark
from ray_committer.protocol.paths import join
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.output import open_input

_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_AS_THEY_ARE = frozenset((*_INTEGERS, pa.bool_(), pa.float32(), pa.float64(), pa.date32()))
_MOST_DIGITS = 38


def schema_of_file(spec: StoreSpec, destination: str, path: str) -> pa.Schema:
    """Read the schema of a Parquet file; only its footer is read. ``FileNotFoundError`` if it is gone.
    `ExportError` if it is not a Parquet file, or has a type that Delta does not have."""
    place = join(destination, path)
    try:
        with open_input(spec, place) as opened, pq.ParquetFile(opened) as file:
            physical = {file.schema.column(at).physical_type for at in range(len(file.schema))}
            schema = file.schema_arrow
    except pa.ArrowException as e:
        raise ExportError(
            f"{mark(place)}: cannot be read as a Parquet file ({e})",
            "the table itself is as it was: look at the file, and compare the table with its log: "
            "ray-committer table scan DEST",
        ) from e
    return normal_schema(schema, place, has_int96="INT96" in physical)


def normal_schema(schema: pa.Schema, path: str, *, has_int96: bool = False) -> pa.Schema:
    """The schema with the types that Spark has; `ExportError` names a column that has none."""

    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, _normal(field.type, has_int96)))
        except _UnknownTypeError:
            raise ExportError(
                f"{mark(path)}: column {field.name!r} has the type {field.type}, which Delta tables do "
                "not have",
                "the table itself is as it was: write the column with another type, or leave it out",
            ) from None
    return pa.schema(fields)


def require_same(known: pa.Schema, schema: pa.Schema, path: str) -> None:
    """`ExportError` if a file has a column that the Delta table does not have, or has with another type.
    A column that the file lacks is null in its rows, for Spark as well."""
    for field in schema:
        at = known.get_field_index(field.name)
        if at < 0 or known.field(at).type != field.type:
            expected = "no such column" if at < 0 else f"the type {known.field(at).type}"
            raise ExportError(
                f"{mark(path)}: column {field.name!r} has the type {field.type}, but the exported table "
                f"has {expected}: the schema has changed since the first export",
                "the table itself is as it was, and so is the exported table: add the column there, or "
                "remove the exported table and run the same command, which exports all files anew",
            )


class _UnknownTypeError(Exception):
    pass


def _normal(kind: pa.DataType, int96: bool) -> pa.DataType:
    types = pa.types
    if kind in _AS_THEY_ARE:
        return kind
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _normal(field.type, int96)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_normal(kind.key_type, int96), _normal(kind.item_type, int96))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _normal(kind.value_type, int96)))
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _normal(kind.value_type, int96)
    if types.is_timestamp(kind):
        is_instant = kind.tz is not None or (int96 and kind.unit == "ns")
        return pa.timestamp("us", "UTC" if is_instant else None)
    return _flat(kind)


def _flat(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if kind in _UNSIGNED:
        return _UNSIGNED[kind]
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if is_binary or kind == pa.binary_view():
        return pa.binary()
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    raise _UnknownTypeError
