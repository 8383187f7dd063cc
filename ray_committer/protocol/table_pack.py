"""Which entries of other processes may be put into the log together with an own one.

A process that puts an entry writes it as a draft first. The name of a draft says up to which version its
owner has read the log: it has judged the entry by that, and found it right. So it is enough to judge a
draft by the entries after that version. This module makes no request to a store.

Each rule errs on the side of leaving a draft out: its owner puts it, as if there were no packs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from ray_committer.protocol.claims import judge
from ray_committer.protocol.table_entry import BLIND, Isolation, LogEntry, TableAbort, TableClaim
from ray_committer.protocol.table_paths import BLOCK
from ray_committer.protocol.table_state import ClaimInFlight

MOST_ENTRIES = 16
"""The most entries of one file."""
OLDEST = 256
"""A draft whose owner has seen only entries before the last so many is left out: it may be dead."""

Versions = Sequence[tuple[int, LogEntry]]


def is_packable(entry: LogEntry) -> bool:
    """Whether another process is permitted to put an entry: only a claim that no job committed since its
    base can refuse. An import's claim must come right after what its owner has read, and an abort is put
    by a process that has seen the state of its job."""
    if isinstance(entry, TableClaim):
        return entry.mode in BLIND and not entry.reads and not entry.is_import
    return not isinstance(entry, TableAbort)


def key_of(entry: LogEntry) -> str:
    """A name for entries of a kind of one job attempt: it saves reading drafts that are in the log."""
    identity = f"{type(entry).__name__}/{entry.job_id}/{entry.job_attempt}"
    return sha256(identity.encode()).hexdigest()[:16]


def pack_of(
    own_entry: LogEntry,
    drafts: Iterable[tuple[int, LogEntry]],
    since: int,
    known: Versions,
    version: int,
) -> list[LogEntry]:
    """The entries to put at a `version`: `own_entry`, and the entries of some drafts that may follow it.
    A draft comes with the version that its owner has seen. `known`, by which the own entry was judged,
    are all entries after the version `since`, up to the one before `version`."""
    pack = [own_entry]
    # A file of the log never reaches into the next directory: readers look for a version in its own one.
    room = min(MOST_ENTRIES, BLOCK - version % BLOCK)
    for seen_version, entry in drafts:
        if len(pack) == room:
            break
        # Not older than `since`, because the entries before it are not at hand to judge by; nor newer
        # than what this process has read itself.
        is_known = max(since, version - 1 - OLDEST) <= seen_version < version
        if is_known and may_follow(
            entry, [*(logged for at, logged in known if at > seen_version), *pack]
        ):
            pack.append(entry)
    return pack


def may_follow(entry: LogEntry, later: Sequence[LogEntry]) -> bool:
    """Whether a draft is still right after the entries that its owner has not seen.

    None of them is of the same job: it can be the same entry, the abort of the job, or another claim of
    it. A claim also has nothing to do with the claims among them, even if they have ended. They are
    judged at the strictest level, because the job may have been.
    """
    if not is_packable(entry) or any(later_entry.job_id == entry.job_id for later_entry in later):
        return False
    if not isinstance(entry, TableClaim):
        return True
    # As if all were in flight, also those that have ended: the draft's owner has seen neither.
    claims = (
        ClaimInFlight(0, later_entry) for later_entry in later if isinstance(later_entry, TableClaim)
    )
    return judge(entry, (), claims, Isolation.SERIALIZABLE) is None
