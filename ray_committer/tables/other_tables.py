"""Refuse a job that would change another table than its destination without an entry in that log.

Jobs of a table know of each other only by its log. A job that was set up at a partition of the table, or
above the table, does not write to that log.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile

from ray_committer.errors import PreflightError, mark
from ray_committer.protocol.paths import ancestors, join, parent
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import read_definition


def holds_table(path: str) -> PreflightError:
    """The error for a directory, among those that the job writes to, that has a log of its own."""
    return PreflightError(
        f"{mark(join(path, DIRECTORY))}: {mark(path)} is a table with a log, and a job that was set up "
        "elsewhere must not change it",
        "nothing was changed: abort the job, and run it with that table as its destination",
    )


def refuse_partitions_of_tables(store: StoreOperations, paths: Iterable[str]) -> None:
    """`PreflightError` if one of `paths` is a partition of a table with a log.

    It makes one request per directory named like a partition, such as ``day=1``, and none for other
    directories. A directory in a table that is not named so is not found.
    """
    for table in sorted({above for path in paths for above in above_partitions(path)}):
        if read_definition(store, TablePlaces(table)) is not None:
            raise holds_table(table)


def refuse_tables_above(store: StoreOperations, path: str) -> None:
    """`PreflightError` if a directory above `path` is a table with a log, in one request for each; those
    that are closed to this user are not found."""
    for above in sorted({*ancestors(path, "/"), "/"} - {path}):
        with suppress(PermissionError):
            if read_definition(store, TablePlaces(above)) is not None:
                raise holds_table(above)


def above_partitions(path: str) -> list[str]:
    """The directories above `path` of which it can be a partition, by its name and the names above."""
    partitions = takewhile(
        lambda directory: "=" in directory.rpartition("/")[2], (path, *ancestors(path, "/"))
    )
    return [parent(directory) for directory in partitions]
