"""Split rows into the Hive-style directories of partitioned output, by Spark's rules.

A directory is named ``column=value``; the value is the result of Spark's cast to a string, with Spark's
escapes. Null and the empty string have the same name, as in Spark, and are both read as null. Source:
Spark ``ExternalCatalogUtils.getPartitionPathString`` and ``escapePathName``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ray_committer.protocol.partition_names import partition_name
from ray_committer.writers.arrow import pa, pc

_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def split_by_partition(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield each partition's directory and its rows, in their order and without `columns`.

    Without `columns` all rows belong to the directory ``""``.
    """
    if not columns or not table.num_rows:
        yield from [("", table)] if table.num_rows else []
        return
    codes, names = np.zeros(table.num_rows, dtype=np.int64), [""]
    for column in columns:
        codes, names = _refine(codes, names, column, table.column(column))
    order = pc.array_sort_indices(pa.array(codes))  # stable
    ends = np.cumsum(np.bincount(codes))
    rest = table.drop_columns(list(columns)).combine_chunks()  # each `take` would do so
    for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        yield name, rest.take(order.slice(start, end - start))


def _refine(
    codes: np.ndarray[Any, Any], names: list[str], column: str, values: pa.ChunkedArray
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Split the existing groups by one more column; a row's code is an index into the names."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    encoded = values.cast(kind).combine_chunks().dictionary_encode(null_encoding="encode")
    texts = partition_text(column, pa.chunked_array([encoded.dictionary])).to_pylist()
    named = [partition_name(column, text) for text in texts]
    own = list(dict.fromkeys(named))  # null and the empty string have one name
    numbers = {name: number for number, name in enumerate(own)}
    own_codes = np.array([numbers[name] for name in named])[encoded.indices.to_numpy()]
    refined = pa.array(codes * len(own) + own_codes).dictionary_encode()
    return refined.indices.to_numpy(), [
        "/".join(filter(None, (names[code // len(own)], own[code % len(own)])))
        for code in refined.dictionary.to_pylist()
    ]


def partition_text(column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as Spark casts them to strings; ``ValueError`` if their type has no such form."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return partition_text(column, values.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        return _by_value(values.cast(pa.timestamp("us", kind.tz)), _timestamp_text)
    if pa.types.is_floating(kind):
        return _by_value(pc.cast(values, pa.string()), lambda text: _FLOATS.get(text, text))
    if pa.types.is_decimal(kind):
        return _by_value(values, lambda value: format(value, "f"))
    if is_partition_type(kind):
        return values.cast(pa.string())
    raise ValueError(
        f"partition column {column!r}: is of type {kind}, which cannot name directories; "
        f"partition by strings, numbers, booleans, dates or timestamps"
    )


def is_partition_type(kind: pa.DataType) -> bool:
    """Whether values of this type can name directories."""
    if pa.types.is_dictionary(kind):
        return is_partition_type(kind.value_type)
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def _by_value(values: pa.ChunkedArray, text: Any) -> pa.ChunkedArray:
    """Apply `text` to each different value once."""
    encoded = values.combine_chunks().dictionary_encode()
    texts = [None if value is None else text(value) for value in encoded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string()).take(encoded.indices)])


def _timestamp_text(value: Any) -> str:
    """The local time in its own zone, without zeros at the end of a fraction of a second."""
    text: str = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text
