"""``ALTER TABLE`` statements that tell a catalog of partitions, for Spark, Hive and Athena.

Values are quoted strings, which these engines cast to the type of the column. Source: Hive
``BaseSemanticAnalyzer.unescapeSQLString`` and Spark ``SparkParserUtils.unescapeSQLString``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ray_committer.errors import SettingsError

if TYPE_CHECKING:  # the options need this module, and so does each start of the command line
    from ray_committer.protocol.partitions import Partition, PartitionChanges

T = TypeVar("T")
MOST_PARTITIONS = 100
"""The most partitions of one statement."""

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_VARIABLE = "${"  # Spark and Hive replace these by the values of variables, also in strings
_ESCAPED_VARIABLE = "\\u0024{"


def table_name(text: str) -> tuple[str, ...]:
    """The parts of ``table`` or ``db.table``; `SettingsError` if it has more, or an empty one."""
    parts = tuple(text.split("."))
    if len(parts) > 2 or not all(part.strip() == part and part.isprintable() and part for part in parts):
        raise SettingsError(
            f"{text!r}: is not the name of a table in a catalog", "write it as db.table, without quotes"
        )
    return parts


def quoted_table(text: str) -> str:
    """The name of a table in a statement; errors as `table_name`."""
    return ".".join(map(_identifier, table_name(text)))


def statements(
    table: str, changes: PartitionChanges, location: Callable[[Partition], str | None]
) -> Iterator[str]:
    """Yield statements that add the partitions that are there and drop those that are gone, up to
    `MOST_PARTITIONS` in each; idempotent. `location` returns where a partition is, or None if the
    catalog finds it by its values."""
    name = quoted_table(table)
    for some in batches(changes.there, MOST_PARTITIONS):
        added = [
            f"  {partition_clause(partition)}{_location(location(partition))}" for partition in some
        ]
        yield "\n".join([f"ALTER TABLE {name} ADD IF NOT EXISTS", *added]) + ";"
    for some in batches(changes.gone, MOST_PARTITIONS):
        dropped = ",\n".join(f"  {partition_clause(partition)}" for partition in some)
        yield f"ALTER TABLE {name} DROP IF EXISTS\n{dropped};"


def partition_clause(partition: Partition) -> str:
    """``PARTITION (`day`='1')``."""
    values = ", ".join(f"{_identifier(column)}={_text(text)}" for column, text in partition.values)
    return f"PARTITION ({values})"


def batches(some: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Cut what one request cannot hold into parts of `most` elements."""
    return (some[start : start + most] for start in range(0, len(some), most))


def _location(place: str | None) -> str:
    return "" if place is None else f" LOCATION {_text(place)}"


def _identifier(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(value: str) -> str:
    # Quotes and backslashes first: the escape of a variable brings a backslash of its own.
    escaped = "".join(_ESCAPES.get(character, character) for character in value)
    return f"'{escaped.replace(_VARIABLE, _ESCAPED_VARIABLE)}'"
