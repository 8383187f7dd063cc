"""Claim the partitions that a job writes: read the log, judge, and put the claim at its end.

A claim is put only at the version after all entries that it was judged against. So if another process is
faster, its entry is read and the claim is judged again. A claim that waits is not in the log: it holds
nothing, and no other job waits for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ray_committer.errors import CommitConflictError, some_of
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.protocol.claims import WHOLE_TABLE, Obstacle, Verdict, judge
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.table_entry import LogEntry, TableClaim, TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight, TableState, ended_since
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_state
from ray_committer.tables.log import put_entry, read_entries

SHORTEST_SECONDS = 0.1
LONGEST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long to wait for other jobs: `seconds` in all. `sleep` can raise an error to end the wait."""

    seconds: float
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def pauses(self) -> Iterator[float]:
        """The pauses until the time is over: random, and longer each time."""
        deadline, longest = self.clock() + self.seconds, SHORTEST_SECONDS
        while (left := deadline - self.clock()) > 0:
            yield min(left, longest * random.uniform(0.5, 1.0))  # noqa: S311 - chance, no secret
            longest = min(2 * longest, LONGEST_SECONDS)


def claim_partitions(
    store: StoreOperations,
    table: TablePlaces,
    definition: TableDefinition,
    claim: TableClaim,
    waiting: Waiting,
) -> ClaimInFlight:
    """Put a claim into the log as soon as no other job is in its way; the claim with its version.

    If another run of the same commit has put its claim, that one is returned, with the version of its
    commit if it was committed since the claim's base. `CommitConflictError` if the claim is refused or
    `waiting` is over: it is not in the log then.
    """
    base = read_state(store, table, definition.table_id, claim.base)
    entries, pauses = list[tuple[int, LogEntry]](), waiting.pauses()
    while True:
        entries += read_entries(store, table, base.version + len(entries))
        ended, now = ended_since(base, entries)
        if (own := _own(claim, ended, now)) is not None:
            return own
        others = [one for one in ended if not claim.repeats(one.claim)]
        obstacle = judge(claim, others, now.in_flight, definition.isolation)
        if obstacle is None:
            version = now.version + 1
            there = put_entry(store, table, version, claim)
            if isinstance(there, TableClaim) and claim.repeats(there):
                return ClaimInFlight(version, there)
        elif obstacle.verdict is Verdict.REFUSED:
            raise _refused(store, table, claim, obstacle)
        elif (pause := next(pauses, None)) is None:
            raise _waited(store, table, obstacle, waiting.seconds)
        else:
            waiting.sleep(pause)


def _own(claim: TableClaim, ended: Sequence[ClaimInFlight], now: TableState) -> ClaimInFlight | None:
    """The claim of the same job attempt, if it is in flight or was committed."""
    committed = (one for one in ended if one.committed is not None and claim.repeats(one.claim))
    return now.own(claim) or next(committed, None)


def _refused(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, obstacle: Obstacle
) -> CommitConflictError:
    other = obstacle.other
    return CommitConflictError(
        f"{table.destination}: job {other.claim.job_id} (version {other.version}) has written to "
        f"{_shown(obstacle)}, which job {claim.job_id} has read at version {claim.base}",
        f"nothing was changed: give this job up with: {abort_command(store, _job(table, claim))}; "
        f"then run its application again",
    )


def _waited(
    store: StoreOperations, table: TablePlaces, obstacle: Obstacle, seconds: float
) -> CommitConflictError:
    other = obstacle.other
    job = _job(table, other.claim)
    return CommitConflictError(
        f"{table.destination}: job {other.claim.job_id} (version {other.version}) is at work in "
        f"{_shown(obstacle)}, and this job must not be at the same time (waited {seconds:g} s)",
        f"nothing was changed: finish that job with: {commit_command(store, job)}, or give it up with: "
        f"{abort_command(store, job)}; then run the same command",
    )


def _shown(obstacle: Obstacle) -> str:
    paths = obstacle.partitions
    return "the whole table" if WHOLE_TABLE in paths else some_of(paths)


def _job(table: TablePlaces, claim: TableClaim) -> JobAttempt:
    return new_job_attempt(table.destination, claim.job_id, claim.job_attempt)
