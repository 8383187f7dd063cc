"""Replay the log of a table without the code that reads tables, and compare it with the directory.

It reads every entry and every file list, and no checkpoint. It also finds what readers would pass over:
a gap, a second decision about a claim, a file that is added twice, jobs at work that exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ray_committer.protocol.file_list import FileSet, decode_file_list
from ray_committer.protocol.table_entry import (
    NO_CLAIM,
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDone,
    WriteMode,
    decode_entries,
)
from ray_committer.protocol.table_paths import DIRECTORY, TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import all_files, visible_files


@dataclass(frozen=True, slots=True)
class Committed:
    """A job that the log commits at `version`: its claim, and the sizes of the files that it has `added`
    and `removed`."""

    version: int
    claim: TableClaim
    added: dict[str, int]
    removed: dict[str, int]


@dataclass(slots=True)
class Replay:
    """What the entries up to `head` say: the jobs in the order of their commits, the sizes of the files
    of the table and of claims that were given up, the claims in flight, and what is wrong."""

    head: int = 0
    commits: list[Committed] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, int] = field(default_factory=dict)
    in_flight: dict[int, TableClaim] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _removing: set[int] = field(default_factory=set)

    def claim(self, version: int, claim: TableClaim) -> None:
        """Add a claim, beside which no other one in flight may be in its way."""
        for at, other in self.in_flight.items():
            if not claim.repeats(other) and _exclude(claim, other):
                self.wrong.append(f"claims {at} and {version} are in flight at the same time")
        self.in_flight[version] = claim

    def decide(self, version: int, entry: TableCommit | TableAbort) -> TableClaim | None:
        """The claim that an entry commits or aborts; None, and noted, if it is not open."""
        if entry.claim not in self.in_flight or entry.claim in self._removing:
            self.wrong.append(f"version {version} decides claim {entry.claim}, which is not open")
            return None
        return self.in_flight.pop(entry.claim)

    def commit(self, one: Committed, claim: int) -> None:
        """Apply a commit. Other claims of the job attempt end with it."""
        for path, size in one.removed.items():
            if self.files.pop(path, self.given_up.get(path)) != size:
                self.wrong.append(f"version {one.version} removes {path}, which is not in the table")
        for path in one.added.keys() & self.files.keys():
            self.wrong.append(f"version {one.version} adds {path}, which is in the table")
        if any(one.claim.repeats(other.claim) for other in self.commits):
            self.wrong.append(f"version {one.version} commits job {one.claim.job_id} again")
        self.files.update(one.added)
        self.commits.append(one)
        for version in [at for at, other in self.in_flight.items() if one.claim.repeats(other)]:
            del self.in_flight[version]
        if one.removed:
            self.in_flight[claim] = one.claim
            self._removing.add(claim)

    def end(self, version: int, claim: int) -> None:
        """The old files of a committed claim are gone."""
        if claim not in self._removing:
            self.wrong.append(f"version {version} ends claim {claim}, which removes nothing")
        self._removing.discard(claim)
        self.in_flight.pop(claim, None)


def judge_log(store: StoreOperations, table: TablePlaces) -> str | None:
    """What is wrong with the log of a table at which no job is at work; None if its replay leaves no
    claim in flight, and the files that are in the directory."""
    found = replay(store, table)
    there = {name: len(data) for name, data in data_files(store, table).items()}
    if found.wrong:
        return "; ".join(found.wrong)
    if found.in_flight:
        return f"the claims {sorted(found.in_flight)} are in flight"
    return None if there == found.files else f"there is {there}, but the log has {found.files}"


def data_files(store: StoreOperations, table: TablePlaces) -> dict[str, bytes]:
    """The files that readers of the directory see, by relative name, with their contents."""
    found = visible_files(store, table.destination)
    return {name: data for name, data in found.items() if name.partition("/")[0] != DIRECTORY}


def replay(store: StoreOperations, table: TablePlaces, until: int | None = None) -> Replay:
    """Replay the log of a table, up to a version or to its end."""
    found = Replay()
    for version, entry in _entries(store, table, found.wrong):
        if until is not None and version > until:
            break
        found.head = version
        if isinstance(entry, TableClaim):
            found.claim(version, entry)
        elif isinstance(entry, TableDone):
            found.end(version, entry.claim)
        elif entry.claim == NO_CLAIM:
            continue
        elif (claim := found.decide(version, entry)) is not None:
            added = _sizes(store, table, claim, claim.files)
            if isinstance(entry, TableAbort):
                found.given_up |= added
                continue
            removed = _sizes(store, table, claim, entry.removed)
            found.commit(Committed(version, claim, added, removed), entry.claim)
    return found


def _entries(
    store: StoreOperations, table: TablePlaces, wrong: list[str]
) -> Iterator[tuple[int, LogEntry]]:
    files = all_files(store, table.log)
    version = 1
    while files:
        path = table.entry(version)
        if path not in files:
            wrong.append(f"version {version} is missing among {sorted(files)}")
            return
        entries = decode_entries(files.pop(path), path)
        yield from enumerate(entries, version)
        version += len(entries)


def _sizes(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, files: FileSet
) -> dict[str, int]:
    found = list(files.inline)
    for one in files.lists:
        path = table.file_list(claim.job_id, claim.job_attempt, one.name)
        found += decode_file_list(store.read(path), one.digest, path)
    return {file.path: file.size for file in found}


def _exclude(one: TableClaim, other: TableClaim) -> bool:
    """Whether two jobs must not be at work at the same time."""
    modes = {one.mode, other.mode}
    is_shared = modes == {WriteMode.APPEND}
    return (
        (not is_shared and overlap(one.partitions, other.partitions))
        or overlap(one.reads, other.partitions)
        or overlap(other.reads, one.partitions)
    )


def overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a directory of one list is one of the other list, or is below or above it."""
    return any(is_in(path, others) for path in some) or any(is_in(path, some) for path in others)


def is_in(path: str, directories: Sequence[str]) -> bool:
    """Whether a path is one of some directories, or is below one; an empty one is the whole table."""
    return any(one in ("", path) or path.startswith(f"{one}/") for one in directories)
