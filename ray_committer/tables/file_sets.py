"""Save and read the files that an entry of a table's log adds or removes.

A list is written once, in one request, under a name that was never used. An entry names it only after
that. So no process reads a list that is being written, and none writes a list that another one reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ray_committer.errors import TableLogError, TableLogGoneError, mark
from ray_committer.limits.settle import settle
from ray_committer.protocol.file_list import (
    FileList,
    FileSet,
    ListedFile,
    PackedFiles,
    are_inline,
    cut,
    decode_file_list,
    inline_set,
    listed_set,
)
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.at_once import THREADS, at_once
from ray_committer.stores.base import StoreOperations


def save_file_set(
    store: StoreOperations,
    table: TablePlaces,
    files: Sequence[ListedFile],
    *,
    job_id: str,
    job_attempt: int,
) -> FileSet:
    """Save the file lists of a job attempt, if its files are too many for an entry."""
    if are_inline(len(files)):
        return inline_set(files)
    lists = save_file_lists(store, table, cut(files), job_id=job_id, job_attempt=job_attempt)
    return listed_set(lists)


def save_file_lists(
    store: StoreOperations,
    table: TablePlaces,
    packed: Iterable[PackedFiles],
    *,
    job_id: str,
    job_attempt: int,
) -> list[FileList]:
    """Save file lists of a job attempt; `TableLogGoneError` if the directory of the lists is gone."""
    try:
        lists = [_save(store, table, packed_list, job_id, job_attempt) for packed_list in packed]
        if lists:
            store.sync(table.file_lists)
    except FileNotFoundError as e:
        raise TableLogGoneError(f"{mark(table.file_lists)}: is gone") from e
    return lists


def read_file_set(
    store: StoreOperations, table: TablePlaces, file_set: FileSet, *, job_id: str, job_attempt: int
) -> list[ListedFile]:
    """Read the files of an entry; `TableLogError` if a list is missing or is not what the entry says."""
    return list(each_file(store, table, file_set, job_id=job_id, job_attempt=job_attempt))


def each_file(
    store: StoreOperations, table: TablePlaces, file_set: FileSet, *, job_id: str, job_attempt: int
) -> Iterator[ListedFile]:
    """The same files, a few lists in memory at a time."""

    def read(file_list: FileList) -> list[ListedFile]:
        return read_file_list(
            store, table.file_list(job_id, job_attempt, file_list.name), file_list.digest
        )

    yield from file_set.inline
    for start in range(0, len(file_set.lists), THREADS):
        for files in at_once(store, read, file_set.lists[start : start + THREADS]):
            yield from files


def read_file_list(store: StoreOperations, path: str, digest: str) -> list[ListedFile]:
    """Read a file list with its digest; `TableLogError` if it is missing or another."""
    try:
        return decode_file_list(store.read(path), digest, path)
    except FileNotFoundError as e:
        raise TableLogError(f"{mark(path)}: is missing, although the log of the table names it") from e


def _save(
    store: StoreOperations, table: TablePlaces, packed: PackedFiles, job_id: str, job_attempt: int
) -> FileList:
    """Write a list. A request that got no answer can be carried out later, so its name is given up."""
    written: list[FileList] = []

    def write() -> None:
        file_list = packed.listed(new_nonce())
        # A name of its own at each attempt: a write without an answer may still come, and must not meet
        # this one.
        path = table.file_list(job_id, job_attempt, file_list.name)
        store.write_once(path, packed.data)
        store.sync(path)
        written.append(file_list)

    settle(write)
    return written[0]
