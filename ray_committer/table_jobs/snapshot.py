"""Read a table with a log at one version: its files, and datasets of pyarrow, polars and Ray Data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ray_committer.errors import JobNotFoundError, TableVersionGoneError, mark
from ray_committer.jobs.open_job import StorageOptions, located_errors, open_here
from ray_committer.options import CommitOptions
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import fsspec_url
from ray_committer.tables.log import read_definition
from ray_committer.tables.snapshot import TableSnapshot

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as pads

    from ray_committer.interop.readers.arrow import FileReader, PlacedFile


class Snapshot:
    """The files of a table at one version, as all jobs left them that were committed at or before it.

    It does not change: what later jobs do is in later versions. A file that a later job has removed is
    read where that job keeps old files. If it keeps none, `urls` and the datasets raise
    `TableVersionGoneError`. They know of the jobs that were committed when the snapshot was taken;
    `refresh` also of later ones.
    """

    def __init__(
        self, store: StoreOperations, definition: TableDefinition, files: TableSnapshot
    ) -> None:
        self._store, self._definition, self._files = store, definition, files

    @property
    def version(self) -> int:
        """The version of the last entry of the log that counts."""
        return self._files.state.version

    @property
    def table_id(self) -> str:
        """The id of the table; one that is made at the same place later has another."""
        return self._files.table_id

    def partitions(self) -> list[str]:
        """The directories with files, relative to the table, in order; reads the list of all files."""
        return sorted({partition_of(file.path) for file in self.files()})

    def files(self, partition: str = "") -> list[ListedFile]:
        """The files of a partition, such as ``day=1``, and of those below it; all without a partition.

        They are in the order of their paths, and also those are among them that are gone by now.
        """
        with located_errors(self._store.spec):
            return self._files.files(partition.strip("/"))

    def urls(self, partition: str = "") -> list[str]:
        """Where the same files are, in the same order, as fsspec names it: a path, or an unquoted URL.

        `TableVersionGoneError` if a later job has deleted one of them.
        """
        return [fsspec_url(self._store.spec, place) for _, place in self._placed(partition)]

    def dataset(
        self,
        partition: str = "",
        *,
        format: str | None = None,  # noqa: A002 - what pyarrow calls it
        schema: pa.Schema | None = None,
    ) -> pads.Dataset:
        """A ``pyarrow.dataset`` over exactly the same files, without those that readers pass over
        because their name begins with ``_`` or a dot.

        format: parquet, orc, feather, csv or json; by default what the names end with.
        schema: by default the first file's, and the partition columns of the table's definition.
            Other columns in names of directories hold integers if all values there are, else strings.

        Errors as `urls`; `SettingsError` if the files have no common format, or a value is not of its
        column's type. If a file is removed while the dataset is read, pyarrow raises FileNotFoundError.
        """
        reader, files, _ = self._reader(partition, format, schema)
        return reader.dataset(files)

    def ray_dataset(
        self,
        partition: str = "",
        *,
        format: str | None = None,  # noqa: A002 - what pyarrow calls it
        schema: pa.Schema | None = None,
    ) -> Any:
        """A ``ray.data.Dataset`` with the same rows and types as `dataset`, read by tasks on Ray.

        If a file is removed before it is read, the read fails with `TableVersionGoneError`.
        """
        from ray_committer.interop.readers.ray_data import ray_dataset

        return ray_dataset(*self._reader(partition, format, schema))

    def to_polars(
        self,
        partition: str = "",
        *,
        format: str | None = None,  # noqa: A002 - what pyarrow calls it
        schema: pa.Schema | None = None,
    ) -> pl.LazyFrame:
        """A polars ``LazyFrame`` with the same rows and types as `dataset`; errors also as there."""
        try:
            import polars as pl
        except ImportError as e:
            text = f"{e.name} is not installed; to read with polars, install it with pip"
            raise ImportError(text) from e
        return pl.scan_pyarrow_dataset(self.dataset(partition, format=format, schema=schema))

    def refresh(self) -> Snapshot:
        """The same version as the log knows it now: with the new places of files that were removed."""
        with located_errors(self._store.spec):
            return Snapshot(self._store, self._definition, self._files.again())

    def is_in_place(self, partition: str = "") -> bool:
        """Whether every file is still where this snapshot says, and was there when it was taken. If so,
        all that was read from the files before this call belongs to this version."""
        with located_errors(self._store.spec):
            if not self._files.is_settled(partition.strip("/")):
                return False
        try:
            return self.refresh().urls(partition) == self.urls(partition)
        except TableVersionGoneError:
            return False

    def __repr__(self) -> str:
        return f"<snapshot of version {self.version} of table {self.table_id}>"

    def _placed(self, partition: str) -> list[tuple[ListedFile, str]]:
        directory = partition.strip("/")
        with located_errors(self._store.spec):
            files = self._files.files(directory)
            return list(zip(files, self._files.places(files, directory), strict=True))

    def _reader(
        self,
        partition: str,
        format: str | None,  # noqa: A002
        schema: pa.Schema | None,
    ) -> tuple[FileReader, Sequence[PlacedFile], Sequence[int]]:
        from ray_committer.interop.readers.arrow import PlacedFile, reader_of

        placed = [pair for pair in self._placed(partition) if not is_hidden(pair[0].path)]
        files = [PlacedFile(file.path, place) for file, place in placed]
        columns = self._definition.partition_columns
        reader = reader_of(self._store.spec, files, columns, format=format, schema=schema)
        return reader, files, [file.size for file, _ in placed]


def snapshot(
    dest: str,
    version: int | None = None,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> Snapshot:
    """Read which files belong to a table at a version, or at the last one.

    `JobNotFoundError` if `dest` is not a table with a log. `TableVersionGoneError` if it has no such
    version.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        definition = definition_of(store, table)
        files = TableSnapshot(store, table, definition.table_id, version)
        return Snapshot(store, definition, files)


def definition_of(store: StoreOperations, table: TablePlaces) -> TableDefinition:
    """The definition of a table; `JobNotFoundError` if there is none."""
    definition = read_definition(store, table)
    if definition is None:
        raise JobNotFoundError(
            f"{mark(table.destination)}: is not a table with a log",
            "make it one with: ray-committer table init DEST",
        )
    return definition
