"""Save and read the files that an entry of a table's log adds or removes."""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import TableLogError
from ray_committer.job_files.settle import put
from ray_committer.protocol.file_list import FileSet, ListedFile, decode_file_list, file_set
from ray_committer.protocol.paths import parent
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, sync


def save_file_set(
    store: StoreOperations,
    table: TablePlaces,
    files: Sequence[ListedFile],
    *,
    job_id: str,
    job_attempt: int,
    batch: int,
) -> FileSet:
    """Save the file lists of one batch of a job attempt, if its files are too many for an entry.

    Idempotent: the name of a list follows from its batch and its content.
    """
    found, lists = file_set(files, batch)
    places = {table.file_list(job_id, job_attempt, name): data for name, data in lists.items()}
    for directory in {parent(path) for path in places}:
        if store.capabilities.has_directories:
            store.mkdirs(directory)
    for path, data in places.items():
        put(store, path, data, temporary=table.temporary(new_nonce()))
        sync(store, path)
    for directory in {parent(path) for path in places}:
        sync(store, directory)
    return found


def read_file_set(
    store: StoreOperations, table: TablePlaces, found: FileSet, *, job_id: str, job_attempt: int
) -> list[ListedFile]:
    """Read the files of an entry; `TableLogError` if a list is missing or is not what the entry says."""
    files = list(found.inline)
    for one in found.lists:
        path = table.file_list(job_id, job_attempt, one.name)
        files += read_file_list(store, path, one.digest)
    return files


def read_file_list(store: StoreOperations, path: str, digest: str) -> list[ListedFile]:
    """Read a file list with its digest; `TableLogError` if it is missing or another."""
    try:
        return decode_file_list(store.read(path), digest, path)
    except FileNotFoundError as e:
        raise TableLogError(f"{path}: is missing, although the log of the table names it") from e
