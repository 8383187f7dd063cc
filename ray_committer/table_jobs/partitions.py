"""Find out which partitions of a destination have files now, and tell a catalog of them.

The partitions in question are those that a commit, or the jobs in the log of a table since a version,
have touched, or all. What is true of them is read from the destination, or from the log if it has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import CatalogTableError, RayCommitterError, mark
from ray_committer.interop.catalogs.base import Catalog, sync_catalog
from ray_committer.jobs.open_job import StorageOptions, open_here, require_destination
from ray_committer.options import CommitOptions
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.partitions import (
    Partition,
    PartitionChanges,
    and_above,
    changes_in,
    directories_of,
)
from ray_committer.protocol.paths import is_inside, join
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.uri import parse_uri, quote_path
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import fsspec_url, is_on_store, shown_url
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.table_jobs.table_files import files_of
from ray_committer.tables.changes import committed_since
from ray_committer.tables.log import read_definition
from ray_committer.tables.snapshot import TableSnapshot

_SAME_SCHEME = {"s3a": "s3", "s3n": "s3"}

MOST_ALONE = 16
"""If more partitions are in question, the list of all files in a log is read once."""


@dataclass(frozen=True, slots=True)
class TouchedSince:
    """The directories that jobs have touched, and the version of the last of these jobs."""

    directories: frozenset[str]
    version: int


class TablePartitions:
    """The partitions at a destination; errors of the store as in `open_here`."""

    def __init__(self, store: StoreOperations, destination: str) -> None:
        self._store, self._destination = store, destination
        self._table = TablePlaces(destination)

    @property
    def url(self) -> str:
        """The destination, as a user names it."""
        return shown_url(self._store.spec, self._destination)

    def place(self, partition: Partition) -> str:
        """The URL of a partition, unquoted, as Hadoop reads it."""
        spec, path = self._store.spec, join(self._destination, partition.path)
        return f"file:{path}" if spec.scheme == "file" else fsspec_url(spec, path)

    def touched_since(self, version: int) -> TouchedSince:
        """The directories in which jobs have added or removed files after a version of the table.

        `JobNotFoundError` if there is no log. `TableVersionGoneError` if it has no such version.
        """
        store, table = self._store, self._table
        table_id = definition_of(store, table).table_id
        directories, last = set[str](), version
        for commit in committed_since(store, table, table_id, version):
            read = partial(files_of, store, table, commit.claim)
            paths = (file.path for files in (commit.claim.files, commit.removed) for file in read(files))
            directories |= directories_of(paths)
            last = max(last, commit.version)
        return TouchedSince(frozenset(directories), last)

    def now(self, touched: Collection[str] | None = None) -> PartitionChanges:
        """What a catalog must know of the `touched` directories, or of all: which partitions are there,
        and which of the touched are gone. `CatalogTableError` names a directory that is no partition."""
        if touched is not None and not touched:
            return PartitionChanges()
        definition = read_definition(self._store, self._table)
        if definition is not None:
            filled = self._in_log(definition.table_id, touched)
        elif touched is None:
            filled = self._everywhere()
        else:
            below = at_once(self._store, self._below, sorted(touched))
            filled = {path for paths in below for path in paths}
        return changes_in(touched or (), filled, self.url)

    def path_of(self, location: str) -> str | None:
        """The path, relative to the destination, of a directory that a catalog names by its URL, or by
        its local path, unquoted; None if it is somewhere else."""
        spec, real = self._store.spec, self._store.real_path
        try:
            uri = parse_uri(_quoted(location))
        except RayCommitterError:
            return None
        uri = replace(uri, scheme=_SAME_SCHEME.get(uri.scheme, uri.scheme) or "file")
        uri = replace(uri, authority=uri.authority or spec.authority)
        is_here = is_on_store(uri, spec.scheme, spec.authority)
        path, top = real(uri.path), real(self._destination)
        return relative(top, path) if is_here and (path == top or is_inside(path, top)) else None

    def _in_log(self, table_id: str, touched: Collection[str] | None) -> set[str]:
        snapshot = TableSnapshot(self._store, self._table, table_id)
        if touched is None or len(touched) > MOST_ALONE:
            filled = directories_of(file.path for file in snapshot.files())
            roots = frozenset(touched or ("",))
            if "" in roots:
                return filled
            return {path for path in filled if not roots.isdisjoint(and_above(path))}
        return directories_of(file.path for path in touched for file in snapshot.files(path))

    def _everywhere(self) -> set[str]:
        require_destination(self._store, self._destination)
        top = [
            status for status in self._store.list_status(self._destination) if not is_hidden(status.name)
        ]
        below = at_once(self._store, self._below, [status.name for status in top if status.is_directory])
        here = directories_of(status.name for status in top if not status.is_directory)
        return here.union(*below)

    def _below(self, path: str) -> set[str]:
        """The directories with data files that are `path`, or below it."""
        if not path:
            return self._everywhere()
        start = len(self._destination.rstrip("/")) + 1
        files = self._store.list_files(join(self._destination, path))
        return directories_of(status.path[start:] for status in files if not status.is_directory)


@contextmanager
def open_partitions(
    dest: str, *, options: CommitOptions = CommitOptions(), storage_options: StorageOptions | None = None
) -> Iterator[TablePartitions]:
    """Open a destination to look at its partitions."""
    with open_here(dest, options, storage_options) as (store, destination):
        yield TablePartitions(store, destination)


def tell_catalog(
    partitions: TablePartitions,
    catalog: Catalog,
    touched: Collection[str] | None = None,
    *,
    with_locations: bool = False,
) -> PartitionChanges:
    """Tell a catalog which of the `touched` partitions are there now, and which are gone; of all, those
    that the catalog alone knows included, if none are given. Returns what it was told; idempotent.

    `CatalogTableError` if the table is not at this destination, unless the partitions are added
    `with_locations`, or if its partition columns differ. `CatalogError` if the catalog fails.
    """
    # Without locations, the catalog finds a partition below its own table: in another directory those
    # would be wrong ones.
    if not with_locations and partitions.path_of(catalog.location) != "":
        raise CatalogTableError(
            f"{mark(partitions.url)}: is not where table {catalog.table} is, which is "
            f"{mark(catalog.location)}",
            "nothing was changed: name the table of this destination, or give --with-locations",
        )
    if not catalog.columns:
        return PartitionChanges()
    look = (
        partial(partitions.now, touched)
        if touched is not None
        else partial(_look_at_all, partitions, catalog)
    )
    return sync_catalog(catalog, look, partitions)


def _look_at_all(partitions: TablePartitions, catalog: Catalog) -> PartitionChanges:
    known = {path for location in catalog.known() if (path := partitions.path_of(location)) is not None}
    there = [partition.path for partition in partitions.now().there]
    return changes_in(known, there, partitions.url)


def _quoted(location: str) -> str:
    """A location as `parse_uri` reads it."""
    scheme, colon, rest = location.partition(":/")
    if location.startswith("/") or not colon:
        return quote_path(location)
    return f"{scheme}:{quote_path('/' + rest)}"
