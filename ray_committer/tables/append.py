"""Append entries to a table's log, each once, however many runs of a commit append the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ray_committer.protocol.table_entry import Decision, LogEntry, TableAbort, TableClaim, TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.among_others import Entrant
from ray_committer.tables.log import Entries, read_entries, read_entry
from ray_committer.tables.put import put_entry

_Found = TypeVar("_Found")


class Decided(NamedTuple):
    """The decision about a claim, and its version; `end` is the last in its file, if it is new."""

    version: int
    decision: Decision
    end: int | None = None


def append(
    store: StoreOperations, table: TablePlaces, entry: LogEntry, after: int, *, is_end: bool = False
) -> int:
    """Append an entry, unless one since version `after` repeats it; the version of that entry.

    So runs of the same commit can append the same: it is there once. `is_end` as for `read_entries`.
    """
    entries = read_entries(store, table, after, is_end=is_end)
    # The log from `after` on is looked at first: another run of the commit may have put the entry.
    if (repeated := find_repeated(entries, entry)) is not None:
        return repeated
    with Entrant(store, table, after) as entrant:
        return _put(entrant, entry, entries, lambda new: find_repeated(new, entry))


def find_repeated(entries: Iterable[tuple[int, LogEntry]], entry: LogEntry) -> int | None:
    """The version of the first of some entries that `entry` repeats."""
    return next((version for version, written in entries if entry.repeats(written)), None)


def append_next(store: StoreOperations, table: TablePlaces, entry: LogEntry, end: int) -> int:
    """`append` an entry that is probably the next one after version `end`, with one request less."""
    placed = put_entry(store, table, end + 1, entry)
    repeated = find_repeated(enumerate(placed, end + 1), entry)
    # Something else was put in that place, so the whole rest of the log is read.
    return repeated or append(store, table, entry, end, is_end=True)


def decide(store: StoreOperations, table: TablePlaces, entry: Decision) -> tuple[int, Decision]:
    """Append the decision about a claim, unless the log has one; the one that counts, and its version.

    A decision is put only right after entries that were all read. So of a commit and an abort at once
    the log has the first, and both callers get it. The commit of another claim of the same job attempt
    also counts, since this claim ends with it: the decision that is returned names that claim then.
    """
    # From the claim on: the decision about it can be any entry after it.
    entries = read_entries(store, table, entry.claim)
    decided = find_decision(store, table, entries, entry)
    return decided or put_decision(store, table, entry, entry.claim, entries)[:2]


def find_decision(
    store: StoreOperations, table: TablePlaces, entries: Iterable[tuple[int, LogEntry]], about: Decision
) -> tuple[int, Decision] | None:
    """The first of some entries that decides the claim that a decision is `about`, with its version."""
    decisions = ((version, _decision(store, table, entry, about)) for version, entry in entries)
    return next(((version, decision) for version, decision in decisions if decision is not None), None)


def put_decision(
    store: StoreOperations,
    table: TablePlaces,
    entry: Decision,
    since: int,
    entries: Entries,
    *,
    is_beaten: bool = False,
) -> Decided:
    """`decide`, where `entries`, all after `since`, have no decision. `is_beaten` as for `Entrant`."""
    known = list(entries)
    with Entrant(store, table, since, is_beaten=is_beaten) as entrant:
        # Asked of what is in the log now, also of the own entry: one that was put before it counts
        # instead.
        counting = _put(entrant, entry, known, lambda new: find_decision(store, table, new, entry))
    return Decided(*counting, end=since + len(known))


def _put(
    entrant: Entrant, entry: LogEntry, known: Entries, find: Callable[[Entries], _Found | None]
) -> _Found:
    """Put an entry after the `known` ones, which grow, until the new ones have what is to be found."""
    while True:
        new = entrant.put(entry, known)
        known += new
        if (wanted := find(new)) is not None:
            return wanted


def _decision(
    store: StoreOperations, table: TablePlaces, entry: LogEntry, about: Decision
) -> Decision | None:
    """The entry, if it decides the claim of `about`, or commits another claim of its job attempt."""
    if not isinstance(entry, TableCommit | TableAbort):
        return None
    if entry.claim == about.claim:
        return entry
    is_of_attempt = (entry.job_id, entry.job_attempt) == (about.job_id, about.job_attempt)
    if isinstance(entry, TableAbort) or not is_of_attempt:
        return None
    # The job attempt may have been set up again under the same number: only the nonce in the claims
    # shows it.
    claim, committed_claim = (
        read_entry(store, table, version) for version in (about.claim, entry.claim)
    )
    return entry if isinstance(claim, TableClaim) and claim.repeats(committed_claim) else None
