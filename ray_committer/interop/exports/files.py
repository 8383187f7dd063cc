"""The data files of a table for an export, and what each commit has changed.

Readers of directories pass over hidden files, so an export leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ray_committer.errors import ExportError, mark
from ray_committer.protocol.file_list import FileSet, ListedFile
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.file_sets import read_file_set

PARQUET = ".parquet"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be exported of one version: the files that it adds and removes.

    The table has all files of `added` at the `version`, unless a later version removes them. A file of a
    name in both is another one afterwards.
    """

    version: int
    job_id: str
    added: Sequence[ListedFile]
    removed: Sequence[ListedFile] = ()


def change_of(store: StoreOperations, table: TablePlaces, commit: ClaimCommitted) -> Change:
    """What a committed job has changed; `TableLogError` if a file list is missing or damaged."""

    def read(files: FileSet) -> list[ListedFile]:
        claim = commit.claim
        return read_file_set(store, table, files, job_id=claim.job_id, job_attempt=claim.job_attempt)

    return Change(
        commit.version,
        commit.claim.job_id,
        data_files(read(commit.claim.files)),
        data_files(read(commit.removed)),
    )


def data_files(files: Iterable[ListedFile]) -> list[ListedFile]:
    """The files that readers see."""
    return [file for file in files if not is_hidden(file.path)]


def require_parquet(table: TablePlaces, files: Iterable[ListedFile]) -> None:
    """`ExportError` if one of some files of a table is not named as a Parquet file is."""
    for file in files:
        if not file.path.endswith(PARQUET):
            raise ExportError(
                f"{mark(join(table.destination, file.path))}: is not a Parquet file by its name, and "
                "Delta tables have no other files",
                "the table itself is as it was: only Parquet tables can be exported",
            )
