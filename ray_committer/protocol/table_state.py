"""The state of a table at a version: what its log up to there says.

The claims in flight are few, so the state that a commit needs is small. The files of the table, by
partition, are only for those who read it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import structs

from ray_committer.errors import TableLogError
from ray_committer.protocol.file_list import FileSet, ListedFile, partition_of
from ray_committer.protocol.table_entry import LogEntry, TableClaim, TableCommit, TableDone

Files = dict[str, dict[str, ListedFile]]
"""The files of a table by path, of each partition."""


class ClaimInFlight(msgspec.Struct, frozen=True):
    """A claim whose job may still write, or remove old files; `committed` is its commit's version."""

    version: int
    claim: TableClaim
    committed: int | None = None


class ClaimCommitted(msgspec.Struct, frozen=True):
    """A job that was committed at `version`: its claim, the version of that, and the old files that it
    removed; whether those are `kept`, and when the job was committed."""

    version: int
    claim_version: int
    claim: TableClaim
    removed: FileSet
    kept: bool = False
    at_milliseconds: int = 0


class TableState(msgspec.Struct, frozen=True):
    """The claims in flight at a version, and the last version known at which none was."""

    version: int = 0
    in_flight: list[ClaimInFlight] = []
    quiet: int = 0
    named: int = 0
    """How many files the entries name, as far as that is known."""

    def own(self, claim: TableClaim) -> ClaimInFlight | None:
        """The claim in flight for the same work of the same job attempt, made by another run."""
        mine = (repeat for repeat in self.in_flight if claim.repeats(repeat.claim))
        return next((repeat for repeat in mine if claim.writes_as(repeat.claim)), None)


def follow(
    state: TableState, entries: Iterable[tuple[int, LogEntry]]
) -> tuple[TableState, list[ClaimCommitted]]:
    """The state after some entries, in the order of their versions, and the jobs that they commit.

    A job attempt has several claims if its runs were to do different things. Its commit names the one
    that counts, and the others end with it. An entry about a claim that has ended changes nothing.
    `TableLogError` if an entry cannot follow.
    """
    in_flight = {pending.version: pending for pending in state.in_flight}
    version, quiet, named = state.version, state.quiet, state.named
    committed = list[ClaimCommitted]()
    for version, entry in entries:
        if isinstance(entry, TableClaim):
            in_flight[version] = ClaimInFlight(version, entry)
        # An entry about a claim that is not in flight says nothing new: two processes may both end a
        # claim.
        elif (ended := in_flight.pop(entry.claim, None)) is not None:
            if isinstance(entry, TableCommit) and ended.committed is None:
                what = entry.removed, entry.kept, entry.at_milliseconds
                committed.append(ClaimCommitted(version, ended.version, ended.claim, *what))
                in_flight = {
                    at: pending
                    for at, pending in in_flight.items()
                    if not ended.claim.repeats(pending.claim)
                }
            # The committed claim itself stays in flight as long as it has old files to remove: readers
            # of directories still see those.
            if (after := _after(ended, version, entry)) is not None:
                in_flight[ended.version] = after
        # What is judged from here on needs no entry before this one.
        quiet = quiet if in_flight else version
        named = max(named, entry.named)
    # By version, so that all processes see the same order and wait for the same claim first.
    claims = sorted(in_flight.values(), key=lambda pending: pending.version)
    return TableState(version, claims, quiet, named), committed


def quiet_at(version: int, entry: LogEntry) -> int:
    """A version, not after the entry's own, at which no claim was in flight, as the entry alone shows:
    if none was before the claim of a job, and no entry of another is between its own, the last leaves
    none."""
    if isinstance(entry, TableClaim):
        return entry.quiet
    is_last = not (isinstance(entry, TableCommit) and entry.removed.files)
    first = version - (2 if isinstance(entry, TableDone) else 1)  # `done` comes after the commit
    return version if is_last and entry.claim == first == entry.quiet + 1 else entry.quiet


def ended_since(
    base: TableState, entries: Iterable[tuple[int, LogEntry]]
) -> tuple[list[ClaimInFlight], TableState]:
    """The claims that were committed or aborted since the state `base`, and the state after `entries`.
    A claim that was aborted has no version of a commit.

    A job that reads directories can see new files of a job that is aborted later, and old files of a job
    that is committed and still removes them. So aborted claims count, and those that were committed but
    still in flight at `base`.
    """
    entries = list(entries)
    after, committed = follow(base, entries)
    commits = {commit.claim_version: commit.version for commit in committed}
    claims = [
        ClaimInFlight(version, entry) for version, entry in entries if isinstance(entry, TableClaim)
    ]
    open_ones = {pending.version for pending in after.in_flight if pending.committed is None}
    ended = [
        structs.replace(pending, committed=commits.get(pending.version, pending.committed))
        for pending in (*base.in_flight, *claims)
        if pending.version not in open_ones
    ]
    return ended, after


def _after(pending: ClaimInFlight, version: int, entry: LogEntry) -> ClaimInFlight | None:
    """The claim after an entry about it; None if it has ended."""
    is_committed = pending.committed is not None
    if isinstance(entry, TableCommit):
        after = pending if is_committed else structs.replace(pending, committed=version)
        return after if is_committed or entry.removed.files else None
    if isinstance(entry, TableDone) is not is_committed:
        what = "is" if is_committed else "is not"
        raise TableLogError(f"entry {version} of the log: claim {pending.version} {what} committed")
    return None


def by_partition(listed: Iterable[ListedFile]) -> Files:
    """The files of a table, by partition and path."""
    files: Files = {}
    for file in listed:
        files.setdefault(partition_of(file.path), {})[file.path] = file
    return files
