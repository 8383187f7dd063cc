"""The partitions of a table as a catalog knows them, read from the names of directories.

A catalog is told which partitions have files and which have none any more. Both follow from the files
that are there, so the same question, asked later or by several processes, has a current answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import CatalogTableError, mark, some_of
from ray_committer.protocol.file_list import partition_of
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.partition_names import NULL_PARTITION, partition_name, unescape


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition: its directory relative to the table, and the columns with the texts of their values.
    The value of null is `NULL_PARTITION`."""

    path: str
    values: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.values)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the values, in the order of the columns."""
        return tuple(text for _, text in self.values)

    @property
    def usual_path(self) -> str:
        """The directory that Hive and Spark give a partition with these values."""
        return "/".join(
            partition_name(column.lower(), None if text == NULL_PARTITION else text)
            for column, text in self.values
        )

    @property
    def is_found_by_values(self) -> bool:
        """Whether a catalog finds the directory by the values. It casts a value to the type of its
        column, which nobody here knows, and names the directory by that: ``m=7`` for ``m=07``."""
        return self.path == self.usual_path and not any(map(_can_change, self.texts))


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The partitions that have files, and those that have none; both in the order of their paths. A
    partition that is `gone` can have values for the first columns only: then all below it are gone."""

    there: tuple[Partition, ...] = ()
    gone: tuple[Partition, ...] = ()

    def after(self, before: PartitionChanges) -> PartitionChanges:
        """What a catalog that was told of the changes `before` must be told now."""
        # What the catalog was told of once and what is gone by now must be told, too, even if this
        # change did not touch it.
        there = {*self.there} - {*before.there}
        gone = {*self.gone, *before.there} - {*self.there, *before.gone}
        return PartitionChanges(tuple(sorted(there)), tuple(sorted(gone)))

    @property
    def are_none(self) -> bool:
        return not self.there and not self.gone


def partition_at(path: str, table: str = "") -> Partition:
    """The partition with this directory, relative to the directory of the `table`, which errors name.
    `CatalogTableError` if a part of the path is not ``column=value``."""
    values = _values(path)
    if values is None:
        where = "/".join(filter(None, (table, path)))
        raise CatalogTableError(
            f"{mark(where)}: has data files, but is not the directory of a partition (column=value)",
            "nothing was changed: move these files, or name the partitions with --partition",
        )
    return Partition(path, values)


def is_partition(path: str) -> bool:
    """Whether a path can be the directory of a partition."""
    return _values(path) is not None


def directories_of(paths: Iterable[str]) -> set[str]:
    """The directories with data files, of files by their paths relative to the table."""
    return {partition_of(path) for path in paths if not is_hidden(path)}


def and_above(path: str) -> Iterator[str]:
    """A directory and those above it, except the directory of the table."""
    while path:
        yield path
        path = partition_of(path)


def changes_in(touched: Iterable[str], filled: Iterable[str], table: str = "") -> PartitionChanges:
    """What a catalog must know of the `touched` directories; `filled` are those at or below one with
    files. What can be no partition, such as the whole table, is never gone. Errors as `partition_at`."""
    filled_paths = set(filled)
    # A directory that is gone itself but has partitions below it, is not gone for a catalog.
    above = {directory for path in filled_paths for directory in and_above(path)}
    gone = (Partition(path, values) for path in {*touched} - above if (values := _values(path)))
    added = map(partial(partition_at, table=table), filled_paths)
    return PartitionChanges(tuple(sorted(added)), tuple(sorted(gone)))


def fitted(changes: PartitionChanges, columns: Sequence[str], table: str) -> PartitionChanges:
    """The changes with the columns as the table names them; `CatalogTableError` for a directory with
    other columns, in another order, or with the values of another one."""
    fitted_there = tuple(_fitted(partition, columns, table) for partition in changes.there)
    _require_distinct(fitted_there)
    return PartitionChanges(
        fitted_there,
        tuple(_fitted(partition, columns[: len(partition.values)], table) for partition in changes.gone),
    )


def common_columns(changes: PartitionChanges) -> tuple[str, ...]:
    """The columns of all directories; `CatalogTableError` if they differ, or values are not unique."""
    example_paths: dict[tuple[str, ...], str] = {}
    for partition in (*changes.there, *changes.gone):
        example_paths.setdefault(partition.columns, partition.path)
    longest = max(example_paths, key=len, default=())
    whole = {partition.columns for partition in changes.there} | {longest}
    if len(whole) > 1 or any(columns != longest[: len(columns)] for columns in example_paths):
        raise CatalogTableError(
            f"{some_of(sorted(map(mark, example_paths.values())))}: have different partition columns",
            "nothing was changed: a table has the same columns in all its directories; name one with "
            "--partition",
        )
    _require_distinct(changes.there)
    return longest


def _require_distinct(there: Iterable[Partition]) -> None:
    paths: dict[tuple[tuple[str, str], ...], str] = {}
    for partition in there:
        if (earlier := paths.setdefault(partition.values, partition.path)) != partition.path:
            raise CatalogTableError(
                f"{mark(earlier)} and {mark(partition.path)}: have the same values, for which a catalog "
                "has one directory",
                "nothing was changed: move the files of one to the other, or name one with --partition",
            )


def _can_change(text: str) -> bool:
    """Whether a cast to a number, a boolean or a date, and back, can make another text."""
    return _CASTABLE.match(text) is not None and not _AS_CAST.fullmatch(text)


_CASTABLE = re.compile(
    r"\s*([+-]?\.?[0-9]|[+-]?(inf|nan)|(t|f|y|n|true|false|yes|no)\s*$)", re.IGNORECASE
)
_AS_CAST = re.compile(r"0|-?[1-9][0-9]*|[0-9]{4}-[0-9]{2}-[0-9]{2}|true|false", re.ASCII)
"""What Spark and Hive can cast, and what that leaves as it is: no integer as a double, for example."""


def _values(path: str) -> tuple[tuple[str, str], ...] | None:
    """The columns and values in the name of a directory; None if it is not the name of a partition."""
    parts = [name.partition("=") for name in path.split("/")]
    if not all(column and equals and value for column, equals, value in parts):
        return None
    return tuple((unescape(column), unescape(value)) for column, _, value in parts)


def _fitted(partition: Partition, columns: Sequence[str], table: str) -> Partition:
    named = [column.lower() for column in partition.columns]
    if named != [column.lower() for column in columns]:
        theirs = ", ".join(columns) or "none"
        raise CatalogTableError(
            f"{mark(partition.path)}: does not fit table {table}, whose partition columns are {theirs}",
            "nothing was changed: name the table that this directory belongs to",
        )
    return Partition(partition.path, tuple(zip(columns, partition.texts, strict=True)))
