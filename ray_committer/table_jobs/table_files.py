"""The files in the directory of a table: list them, and find those that the log names, with proof."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import PreflightError, mark
from ray_committer.protocol.file_list import FileSet, ListedFile, partition_of
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import TEMPORARY, join
from ray_committer.protocol.recovery import Expectation, Proof, prove
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces, is_in_log
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.tables.file_sets import read_file_set
from ray_committer.tables.other_tables import holds_table

AT_ONCE = 1_000
"""The number of directories whose listings are held at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that the log names, the file that is in its place, and the proof that it is this one."""

    file: ListedFile
    status: FileStatus | None = None
    proof: Proof | None = None

    @property
    def is_proved(self) -> bool:
        """Whether it is there by more than its size."""
        return self.proof not in (None, Proof.SIZE_ONLY)

    def __str__(self) -> str:
        """What is wrong with it."""
        if self.status is None:
            return f"{self.file.path}: is missing"
        if self.status.is_directory:
            return f"{self.file.path}: is a directory"
        if self.status.size != self.file.size:
            return f"{self.file.path}: has {self.status.size} bytes, not {self.file.size}"
        if self.proof is Proof.SIZE_ONLY:
            return f"{self.file.path}: only its size shows that it is the file"
        return f"{self.file.path}: was changed"


def list_table(store: StoreOperations, table: TablePlaces) -> Iterator[tuple[str, FileStatus]]:
    """The files below the destination by relative path, also hidden ones; none of jobs or of the log.

    Each directory directly below the destination is listed on its own, so that only one such listing is
    held. `PreflightError` if another table is below, if a directory is a symbolic link, or if the log
    cannot hold a name.
    """
    try:
        top = store.list_anew(table.destination)
    except FileNotFoundError:
        return
    for status in top:
        if status.name not in (TEMPORARY, DIRECTORY):
            is_walked = status.is_directory and not status.is_link
            for entry in store.list_files(status.path) if is_walked else (status,):
                if not (entry.is_directory and is_hidden(relative(table.destination, entry.path))):
                    yield _name(table, entry), entry


def find_listed(
    store: StoreOperations, table: TablePlaces, files: Iterable[ListedFile]
) -> Iterator[Found]:
    """What is in the places of some files of the log; one listing per directory."""
    by_directory: defaultdict[str, list[ListedFile]] = defaultdict(list)
    for file in files:
        by_directory[partition_of(file.path)].append(file)
    groups = list(by_directory.items())
    for start in range(0, len(groups), AT_ONCE):
        part = groups[start : start + AT_ONCE]
        for findings in at_once(store, partial(_find_in_directory, store, table), part):
            yield from findings


def compare(file: ListedFile, status: FileStatus | None) -> Found:
    """Compare a file of the log with what is in its place."""
    if status is None or status.is_directory:
        return Found(file, status)
    return Found(
        file,
        status,
        prove(Expectation(file.size, file.etag, file.modified_milliseconds), status.observation()),
    )


def files_of(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, file_set: FileSet
) -> list[ListedFile]:
    """The files of an entry about a claim."""
    job_id, number = claim.job_id, claim.job_attempt
    return read_file_set(store, table, file_set, job_id=job_id, job_attempt=number)


def as_listed(path: str, status: FileStatus) -> ListedFile:
    """A file as a claim names it."""
    return ListedFile(path, status.size, status.modified_milliseconds, status.etag)


def _name(table: TablePlaces, status: FileStatus) -> str:
    if is_in_log(status.path):
        raise holds_table(status.path.partition(f"/{DIRECTORY}/")[0])
    if status.is_directory:
        raise PreflightError(
            f"{mark(status.path)}: is a symbolic link to a directory, and the data behind it may belong "
            "to others",
            "nothing was changed: replace the link by a directory, and run the same command",
        )
    try:
        status.path.encode()
    except UnicodeEncodeError as e:
        shown = status.path.encode(errors="backslashreplace").decode()
        raise PreflightError(
            f"{mark(shown)}: its name is not UTF-8, so the log cannot hold it",
            "nothing was changed: rename or remove that file, and run the same command",
        ) from e
    return relative(table.destination, status.path)


def _find_in_directory(
    store: StoreOperations, table: TablePlaces, group: tuple[str, Sequence[ListedFile]]
) -> list[Found]:
    directory, files = group
    try:
        listed = store.list_anew(join(table.destination, directory) if directory else table.destination)
    except (FileNotFoundError, NotADirectoryError):
        listed = []
    there = {status.name: status for status in listed}
    return [compare(file, there.get(file.path.rpartition("/")[2])) for file in files]
