"""A snapshot of a table: its files at one version, and where each of them is now.

A file that a later commit has removed is at the place where that commit keeps old files, or it is gone.
Its old name is never read in its stead: another job can have written a file of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ray_committer.errors import TableVersionGoneError, mark
from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.file_list import FileSet, ListedFile
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_checkpoint import EVERYWHERE, Below
from ray_committer.protocol.table_entry import TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted, ClaimInFlight, TableState, follow
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import FilesAt
from ray_committer.tables.file_sets import read_file_set
from ray_committer.tables.log import read_entry


class TableSnapshot:
    """The files of a table at a version, or at the head, with their places as the log knows them now.
    `TableVersionGoneError` if the log has no such version."""

    def __init__(
        self, store: StoreOperations, table: TablePlaces, table_id: str, version: int | None = None
    ) -> None:
        self._store, self._table = store, table
        self.table_id = table_id
        self._at = FilesAt(store, table, table_id, version)
        self._new_names: dict[int, frozenset[str]] = {}

    @property
    def state(self) -> TableState:
        return self._at.state

    def files(self, directory: str = "") -> list[ListedFile]:
        """The files below a directory, in the order of paths; `TableLogError` if the log is damaged."""
        return self._at.below(directory)

    def places(self, files: Sequence[ListedFile], directory: str = "") -> list[str]:
        """The paths on the store of some files below a directory, in their order.
        `TableVersionGoneError` if a later commit has deleted one of them."""
        removed = self._removed(Below(directory))
        return [
            self._place_of_removed(file, removed[file.path])
            if file.path in removed
            else join(self._table.destination, file.path)
            for file in files
        ]

    def again(self) -> TableSnapshot:
        """The same version, with the places as the log knows them now."""
        return TableSnapshot(self._store, self._table, self.table_id, self.state.version)

    def is_settled(self, directory: str = "") -> bool:
        """Whether no file below a directory had the name of an old one that was still in its place when
        the log was read: a job gives these names to its files just after its commit."""
        after = follow(self.state, self._at.later)[0]
        committed = (pending for pending in after.in_flight if pending.committed is not None)
        return not any(self._replaces_names(pending, Below(directory)) for pending in committed)

    @cached_property
    def _later(self) -> tuple[list[ClaimCommitted], frozenset[int]]:
        """The later commits, and the claims of those that may still be removing old files."""
        after, commits = follow(self.state, self._at.later)
        at_work = (pending.version for pending in after.in_flight if pending.committed is not None)
        return commits, frozenset(at_work)

    def _removed(self, below: Below) -> dict[str, ClaimCommitted]:
        """The first later commit that has removed the file at each path."""
        removers: dict[str, ClaimCommitted] = {}
        for commit in self._later[0]:
            for file in self._read(commit, commit.removed, below):
                # The first one that removed it has moved it away; a later one has removed another file
                # of that name.
                removers.setdefault(file.path, commit)
        return removers

    def _read(self, commit: ClaimCommitted, files: FileSet, below: Below) -> list[ListedFile]:
        if not common_partitions([below.directory], commit.claim.partitions):
            files = FileSet(inline=files.inline)
        job_id, job_attempt = commit.claim.job_id, commit.claim.job_attempt
        return read_file_set(self._store, self._table, files, job_id=job_id, job_attempt=job_attempt)

    def _place_of_removed(self, file: ListedFile, by: ClaimCommitted) -> str:
        path, kept = (
            join(self._table.destination, file.path),
            self._table.kept(by.claim_version, file.path),
        )
        if not by.kept:
            raise TableVersionGoneError(
                f"{mark(path)}: is a file of version {self.state.version} of the table, which job "
                f"{by.claim.job_id} has deleted (version {by.version})",
                f"nothing was changed: read version {by.version} or a later one; old files stay if jobs "
                f"keep what they replace (keep_replaced)",
            )
        # A job that is still at work may not have moved it yet: then it is at its old place, unless that
        # name has a new file by now.
        if by.claim_version not in self._later[1] or self._store.get_status(kept) is not None:
            return kept
        if file.path not in self._names_of_new(by):
            return path
        raise TableVersionGoneError(
            f"{mark(path)}: is a file of version {self.state.version} of the table, which job "
            f"{by.claim.job_id} is moving now (version {by.version})",
            "nothing was changed: wait until that job has ended, or finish its commit; then read again",
        )

    def _replaces_names(self, pending: ClaimInFlight, below: Below) -> bool:
        """Whether a job is part of this version and gives its files the names of old ones."""
        if pending.committed is None or pending.committed > self.state.version:
            return False
        entry = read_entry(self._store, self._table, pending.committed)
        if not isinstance(entry, TableCommit):
            return False
        by = ClaimCommitted(pending.committed, pending.version, pending.claim, entry.removed)
        removed = {file.path for file in self._read(by, by.removed, below) if file.path in below}
        return not removed.isdisjoint(self._names_of_new(by))

    def _names_of_new(self, by: ClaimCommitted) -> frozenset[str]:
        if by.version not in self._new_names:
            files = self._read(by, by.claim.files, EVERYWHERE)
            self._new_names[by.version] = frozenset(file.path for file in files)
        return self._new_names[by.version]
