"""What a catalog must be able to do so that it can be told of partitions, and how it is told.

A catalog is told what the destination has now, whatever it knew. Another process can do the same, or
change the destination at the same time. So after each change this one looks at the destination again,
until there is nothing new: the last to look corrects what others have said too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from ray_committer.errors import CatalogError, CatalogTableError
from ray_committer.protocol.partitions import Partition, PartitionChanges, and_above, fitted

ROUNDS = 10
"""How often the catalog is told of partitions that change at the same time."""


class Places(Protocol):
    """Where partitions are: the destination that a catalog is told of."""

    def place(self, partition: Partition) -> str:
        """The URL of a partition, unquoted, as Hadoop reads it."""

    def path_of(self, location: str) -> str | None:
        """The path, relative to the destination, of a directory that a catalog names by its URL, or by
        its local path, unquoted; None if it is somewhere else."""


class Catalog(Protocol):
    """One table of a catalog. Each call is idempotent, and raises `CatalogError` if it fails.

    table: its name. columns: its partition columns. location: the URL or path of its directory.
    """

    table: str
    columns: Sequence[str]
    location: str

    def add(self, partitions: Sequence[Partition], places: Places) -> None:
        """Add partitions; those that it has stay as they are."""

    def drop(self, partitions: Sequence[Partition], places: Places) -> None:
        """Drop partitions, with those below them, if they are in these places; keeps their files."""

    def known(self) -> Iterable[str]:
        """The locations of all its partitions."""


def sync_catalog(
    catalog: Catalog, look: Callable[[], PartitionChanges], places: Places
) -> PartitionChanges:
    """Tell a catalog what `look` finds, until a later look finds nothing else; return what it was told.

    Idempotent, and complete if it is run again after it was interrupted anywhere. `CatalogTableError` if
    a directory does not fit the table: then the catalog was told nothing.
    """
    told_changes = PartitionChanges()
    for _ in range(ROUNDS):
        fitting = fitted(look(), catalog.columns, catalog.table)
        if (new := fitting.after(told_changes)).are_none:
            return told_changes
        # Dropped before added: two directories can have the same values, and a catalog has room for one
        # of them.
        if new.gone:
            catalog.drop(new.gone, places)
        if new.there:
            catalog.add(new.there, places)
        told_changes = fitting
    raise CatalogError(
        f"{catalog.table}: its partitions have changed during each of {ROUNDS} looks",
        "run the same command when fewer jobs are at work at the destination",
    )


def is_to_be_dropped(location: str, gone: AbstractSet[str], places: Places) -> bool:
    """Whether a partition at `location` is, or is below, one of those at the relative paths `gone`."""
    path = places.path_of(location) or ""
    return any(above in gone for above in and_above(path))


def no_such_table(table: str, catalog: str) -> CatalogTableError:
    """The error for a table that a catalog does not have."""
    return CatalogTableError(
        f"{table}: is not a table in {catalog}", "nothing was changed: create it, or correct the name"
    )
