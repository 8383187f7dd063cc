"""Read the state and the files of a table from its last checkpoint and the entries after it.

A checkpoint can be made again from the log, so it decides nothing: one that cannot be read is passed
over. Old checkpoints stay, because a reader may be reading one, and old versions are read from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ray_committer.errors import TableLogError
from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.file_list import FileSet, ListedFile
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_checkpoint import (
    EVERYWHERE,
    Below,
    Between,
    Changes,
    Checkpoint,
    Part,
    apply_changes,
    decode_checkpoint,
)
from ray_committer.protocol.table_entry import LogEntry, TableClaim, TableCommit
from ray_committer.protocol.table_paths import TablePlaces, number_of
from ray_committer.protocol.table_state import (
    ClaimCommitted,
    Files,
    TableState,
    by_partition,
    follow,
    quiet_at,
)
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.tables.file_sets import each_file, read_file_list
from ray_committer.tables.log import Entries, LogFiles, read_entries, version_gone

ENTRIES = 64
FILES = 50_000
"""How many entries, or files in them, a reader reads after the last checkpoint."""


def is_due(entries: int, files: int) -> bool:
    """Whether to save a checkpoint after so many entries, with so many files, since the last one."""
    return entries >= ENTRIES or files >= FILES


def is_due_between(versions: range, files: range) -> bool:
    """Whether a checkpoint is due after one of some entries, by their versions, or the files named."""
    return _passes(versions, ENTRIES) or _passes(files, FILES)


def files_named(entries: Iterable[tuple[int, LogEntry]]) -> int:
    """How many files some entries add and remove."""
    return sum(_files_of(entry).files for _, entry in entries)


def read_state(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None = None
) -> TableState:
    """Read the claims in flight at version `until`, or at the head: no files. `TableVersionGoneError` if
    the log has no version `until`."""
    checkpoint = next(checkpoints(store, table, table_id, until), Checkpoint(table_id=table_id))
    since, is_end = checkpoint.state.version, checkpoint.is_end
    return follow(checkpoint.state, read_entries(store, table, since, until, is_end=is_end))[0]


def read_since(
    store: StoreOperations,
    table: TablePlaces,
    table_id: str,
    version: int | None = None,
    *,
    to_end: bool = False,
) -> tuple[TableState, Entries]:
    """Read the state at `version`, or at the head, and the entries after it, with one look at the head.
    With `to_end`, the state is the one at the end of the file with that version.

    An entry shows from where the log must be read to know the claims in flight. That is rarely far back,
    so a checkpoint is only looked for if it is. Errors as `read_state`.
    """
    log = LogFiles(store, table)
    at = log.head() if version is None else version
    at = log.end_at(at) if to_end and at else at
    # Most commits need only the last entries: an entry names a version before it at which no claim was
    # in flight.
    quiet = quiet_at(at, log.at(at)) if at else 0
    state = TableState(quiet, quiet=quiet, named=log.at(at).named if at else 0)
    if at - quiet > ENTRIES and (checkpoint := next(checkpoints(store, table, table_id, at), None)):
        state = max(state, checkpoint.state, key=lambda candidate: candidate.version)
    entries = log.after(state.version)
    before = follow(state, (entry for entry in entries if entry[0] <= at))[0]
    return before, [entry for entry in entries if entry[0] > at]


class FilesAt:
    """The files of a table at a version, or at the head, which are read when they are asked for. `state`
    is the state at that version, and `later` are the entries after it. Errors as `read_state`."""

    def __init__(
        self, store: StoreOperations, table: TablePlaces, table_id: str, version: int | None = None
    ) -> None:
        self._store, self._table = store, table
        self._checkpoints = checkpoints(store, table, table_id, version)
        self._nothing = Checkpoint(table_id=table_id)
        self._base = next(self._checkpoints, self._nothing)
        entries = read_entries(
            store, table, self._base.state.version, by_threads=True, is_end=self._base.is_end
        )
        head = self._base.state.version + len(entries)
        if version is not None and version > head:
            raise version_gone(table, version, head)
        last = head if version is None else version
        self.later: Entries = [entry for entry in entries if entry[0] > last]
        self.state, self._commits = follow(
            self._base.state, (entry for entry in entries if entry[0] <= last)
        )

    def below(self, directory: str = "") -> list[ListedFile]:
        """Read the files below a directory, in the order of their paths; all without a directory.
        `TableLogError` if a file list is missing or damaged."""
        below = Below(directory)
        # A checkpoint decides nothing: one with a part that cannot be read is as good as none.
        while (files := self._of_parts(below)) is None:
            self._go_back()
        return apply_changes(files, changes_of(self._store, self._table, self._commits, below))

    def _of_parts(self, below: Below) -> list[ListedFile] | None:
        """The files of the checkpoint; None if it has a part that cannot be read."""
        read = partial(read_part, self._store, self._table)
        try:
            parts = at_once(self._store, read, below.of_parts(self._base.parts))
        except TableLogError:
            return None
        if len(parts) == 1:
            return below.of_files(parts[0])
        return [file for files in parts for file in below.of_files(files)]

    def _go_back(self) -> None:
        """Start from an older checkpoint, or from the log alone."""
        self._base = next(self._checkpoints, self._nothing)
        since, until = self._base.state.version, self.state.version
        entries = read_entries(self._store, self._table, since, until, by_threads=True)
        self._commits = follow(self._base.state, entries)[1]


def read_files(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None = None
) -> tuple[TableState, Files]:
    """Read the state and all files of a table at version `until`, or at the head, by partition. It takes
    memory for each file of the table. Errors as `FilesAt`."""
    files_at = FilesAt(store, table, table_id, until)
    return files_at.state, by_partition(files_at.below())


def changes_of(
    store: StoreOperations,
    table: TablePlaces,
    commits: Iterable[ClaimCommitted],
    below: Below | Between = EVERYWHERE,
) -> Changes:
    """What became of the files at some paths by some commits, in the order of their versions. File lists
    of jobs that have not claimed anything in the directory are not read."""
    changes: dict[str, ListedFile | None] = {}
    for commit in commits:
        # Lists of other partitions are not read. Files in the entry itself are there already.
        wanted = common_partitions([below.directory], commit.claim.partitions)
        removed, added = (
            each_file(
                store,
                table,
                file_set if wanted else FileSet(inline=file_set.inline),
                job_id=commit.claim.job_id,
                job_attempt=commit.claim.job_attempt,
            )
            for file_set in (commit.removed, commit.claim.files)
        )
        # Removed before added: a job that replaces a file by one of the same name names it in both.
        changes.update((file.path, None) for file in removed if file.path in below)
        changes.update((file.path, file) for file in added if file.path in below)
    return changes


def read_part(store: StoreOperations, table: TablePlaces, part: Part) -> list[ListedFile]:
    """Read a part of a checkpoint; `TableLogError` if it is missing or damaged."""
    return read_file_list(store, join(table.parts, part.name), part.digest)


def checkpoints(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None = None
) -> Iterator[Checkpoint]:
    """The checkpoints up to a version that can be read, the newest first."""
    numbers = (number_of(status.name) for status in listed(store, table.checkpoints))
    for version in sorted((number for number in numbers if number is not None), reverse=True):
        if until is not None and version > until:
            continue
        path = table.checkpoint(version)
        try:
            checkpoint = decode_checkpoint(store.read(path), path)
        except (TableLogError, FileNotFoundError):
            continue
        if (checkpoint.table_id, checkpoint.state.version) == (table_id, version):
            yield checkpoint


def listed(store: StoreOperations, directory: str) -> list[FileStatus]:
    """List a directory of checkpoints; empty if it is not there."""
    try:
        return store.list_status(directory)
    except FileNotFoundError:
        return []


def _files_of(entry: LogEntry) -> FileSet:
    if isinstance(entry, TableClaim):
        return entry.files
    return entry.removed if isinstance(entry, TableCommit) else FileSet()


def _passes(numbers: range, step: int) -> bool:
    return numbers.stop // step > numbers.start // step
