"""Split rows into the Hive-style directories of partitioned output, by Spark's rules.

A directory is named ``column=value``; the value is the result of Spark's cast to a string, with Spark's
escapes. Null and the empty string have the same name, as in Spark, and are both read as null. Source:
Spark ``ExternalCatalogUtils.getPartitionPathString`` and ``escapePathName``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from ray_committer.protocol.java_numbers import decimal_texts, float_texts
from ray_committer.protocol.partition_names import partition_name
from ray_committer.writers.arrow import pa, pc

Choose = Callable[[tuple[str, ...]], str]


def split_by_partition(
    table: pa.Table, columns: Sequence[str], choose: Choose = itemgetter(0)
) -> Iterator[tuple[str, pa.Table]]:
    """Yield each partition's directory and its rows, in their order and without `columns`; without
    `columns` there is one, ``""``. `choose` selects one of the directories that Spark can give the same
    values, which depends on its Java and its settings."""
    if not columns or not table.num_rows:
        yield from [("", table)] if table.num_rows else []
        return
    codes, names = np.zeros(table.num_rows, dtype=np.int64), [""]
    for column in columns:
        codes, names = _refine(codes, names, column, table.column(column), choose)
    order = pc.array_sort_indices(pa.array(codes))  # stable
    ends = np.cumsum(np.bincount(codes))
    rest = table.drop_columns(list(columns)).combine_chunks()  # each `take` would do so
    for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        yield name, rest.take(order.slice(start, end - start))


def _refine(
    codes: np.ndarray[Any, Any], names: list[str], column: str, values: pa.ChunkedArray, choose: Choose
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Split the existing groups by one more column; a row's code is an index into the names."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    # Each distinct value is formatted once: in Python, all rows would take most of the time.
    encoded = values.cast(kind).combine_chunks().dictionary_encode(null_encoding="encode")
    texts = partition_texts(column, encoded.dictionary)
    named = [tuple(partition_name(column, text) for text in spellings) for spellings in texts]
    names_here = list(dict.fromkeys(named))  # null and the empty string have one name
    numbers = {name: number for number, name in enumerate(names_here)}
    own_codes = np.array([numbers[name] for name in named])[encoded.indices.to_numpy()]
    # A pair of numbers as one number, and then numbered anew: only groups that occur get a code, so the
    # numbers stay small however many columns there are.
    refined = pa.array(codes * len(names_here) + own_codes).dictionary_encode()
    return refined.indices.to_numpy(), [
        choose(
            tuple(
                "/".join(filter(None, (names[code // len(names_here)], spelling)))
                for spelling in names_here[code % len(names_here)]
            )
        )
        for code in refined.dictionary.to_pylist()
    ]


def partition_texts(column: str, values: pa.Array) -> list[tuple[str | None, ...]]:
    """Each value as Spark casts it to a string: by its default first, then in other Java versions or in
    ANSI mode. ``ValueError`` if a value or the type has no such text."""
    kind = values.type
    if pa.types.is_floating(kind):
        texts = partial(float_texts, is_single=pa.types.is_float32(kind))
        return [_each(texts, value) for value in values.to_pylist()]
    if pa.types.is_decimal(kind):
        return [_each(decimal_texts, value) for value in values.to_pylist()]
    if not is_partition_type(kind):
        raise ValueError(
            f"partition column {column!r}: is of type {kind}, which cannot name directories; "
            f"partition by strings, numbers, booleans, dates or timestamps"
        )
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz))
    elif not pa.types.is_date(kind):
        return [(text,) for text in values.cast(pa.string()).to_pylist()]
    try:
        return [_each(_time_texts, value) for value in values.to_pylist()]
    except OverflowError as e:
        raise ValueError(f"partition column {column!r}: has a year outside of 1 to 9999") from e


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


def _each(texts: Callable[[Any], tuple[str, ...]], value: Any) -> tuple[str | None, ...]:
    return (None,) if value is None else texts(value)


def _time_texts(value: Any) -> tuple[str]:
    """A date, or the local time in its own zone, without zeros at the end of a fraction of a second."""
    if not isinstance(value, datetime):
        return (value.isoformat(),)
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    return (text.rstrip("0") if "." in text else text,)
