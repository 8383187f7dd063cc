"""One Delta table, by Delta's library: open it, make it, and write one version of it.

Delta's library is optional, and imported with this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property

import pyarrow as pa

from ray_committer.errors import ExportError, mark
from ray_committer.interop.exports.beaten import BeatenError
from ray_committer.interop.exports.columns import Partitioning
from ray_committer.interop.exports.delta_store import delta_options, delta_url
from ray_committer.interop.exports.files import Change
from ray_committer.interop.exports.schemas import normal_schema
from ray_committer.protocol.file_list import ListedFile
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import shown_url

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
except ImportError as e:
    raise ImportError(f"{e.name} is not installed, and an export to Delta needs it") from e

_NO_STATISTICS = "{}"


class Delta:
    """A Delta table, as it was when it was opened or when its last version was written here."""

    def __init__(self, table: DeltaTable, spec: StoreSpec, path: str) -> None:
        self._table, self._root, self._shown = table, path, shown_url(spec, path)

    @property
    def id(self) -> str:
        """The id of this Delta table; one that is made at the same place later has another."""
        return str(self._table.metadata().id)

    @property
    def version(self) -> int:
        return int(self._table.version())

    def exported(self, app_id: str) -> int | None:
        """The last version that the application with this id has noted; None if it has written none."""
        version: int | None = self._table.transaction_version(app_id)
        return version

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are in the files."""
        return pa.schema([field for field in self._columns if field.name not in self.partitioning.types])

    @cached_property
    def partitioning(self) -> Partitioning:
        names = self._table.metadata().partition_columns
        return Partitioning(self._root, {name: self._columns.field(name).type for name in names})

    @cached_property
    def _columns(self) -> pa.Schema:
        return normal_schema(pa.schema(self._table.schema()), self._shown)

    def commit(self, change: Change, app_id: str) -> None:
        """Write one version of the Delta table; `BeatenError` if another process has written that."""
        added = {file.path for file in change.added}
        # Delta knows a file by its path: an add replaces it, and a remove beside it would take the new
        # one away.
        removed = [file for file in change.removed if file.path not in added]
        actions = [*_adds(change.added, self.partitioning), *_removes(removed, self.partitioning)]
        with _library(self._shown):
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                list(self.partitioning.types),
                commit_properties=_properties(change, app_id),
            )
            self._table.update_incremental()


def open_delta(spec: StoreSpec, path: str) -> Delta | None:
    """Open the Delta table in a directory; None if there is none."""
    url, options = delta_url(spec, path), delta_options(spec)
    with _library(shown_url(spec, path)):
        try:
            return Delta(DeltaTable(url, storage_options=options), spec, path)
        except TableNotFoundError:
            return None


def create_delta(
    spec: StoreSpec,
    path: str,
    schema: pa.Schema,
    partitioning: Partitioning,
    change: Change,
    app_id: str,
) -> None:
    """Make a Delta table whose first version has the files of `change`; `BeatenError` if there is one.

    schema: the columns that are in the files, and not the partition columns.
    """
    url, options = delta_url(spec, path), delta_options(spec)
    columns = pa.schema([*schema, *(pa.field(*column) for column in partitioning.types.items())])
    adds = list(_adds(change.added, partitioning))
    try:
        with _library(shown_url(spec, path)):
            create_table_with_add_actions(
                url,
                Schema.from_arrow(columns),
                adds,
                mode="error",
                partition_by=list(partitioning.types),
                storage_options=options,
                commit_properties=_properties(change, app_id),
            )
    except ExportError:
        # The library has no error of its own for a table that was made meanwhile.
        if open_delta(spec, path) is None:
            raise
        raise BeatenError from None


def _adds(files: Sequence[ListedFile], partitioning: Partitioning) -> Iterator[AddAction]:
    for file in files:
        modified = file.modified_milliseconds or 0
        values = partitioning.texts(file)
        # Without statistics: they are in the footers of the files, and an export reads no data file.
        yield AddAction(file.path, file.size, values, modified, True, _NO_STATISTICS)


def _removes(files: Sequence[ListedFile], partitioning: Partitioning) -> Iterator[RemoveAction]:
    """The files that go, without those that cannot be in the Delta table, such as foreign ones."""
    now_milliseconds = time.time_ns() // 1_000_000
    for file in files:
        with suppress(ExportError):
            yield RemoveAction(file.path, True, now_milliseconds, file.size, partitioning.texts(file))


def _properties(change: Change, app_id: str) -> CommitProperties:
    """What a version says of itself. It is not repeated: another process can have written the same."""
    return CommitProperties(
        custom_metadata={"tableVersion": change.version, "jobId": change.job_id},
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, change.version)],
    )


@contextmanager
def _library(shown: str) -> Iterator[None]:
    """Raise this package's errors for the library's."""
    try:
        yield
    except CommitFailedError as e:
        raise BeatenError(str(e)) from e
    except DeltaError as e:
        raise _failed(shown, e) from e
    except BaseException as e:
        if type(e).__module__ == "pyo3_runtime":  # a defect of the library, which is not an Exception
            raise _failed(shown, e) from e
        raise


def _failed(shown: str, error: BaseException) -> ExportError:
    first = str(error).partition("\n")[0]
    return ExportError(f"{mark(shown)}: the Delta table could not be read or written ({mark(first)})")
