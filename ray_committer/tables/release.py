"""End the claims of jobs that were aborted, so that no other job waits for them.

The state of a job decides. An entry of the log only follows it, so that any process can append it.
"""

from __future__ import annotations

from ray_committer.job_files.commands import abort_command, commit_command, resolve_command
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import UNDECIDED, UNFINISHED, JobState, Phase
from ray_committer.protocol.table_entry import NO_CLAIM, TableAbort, TableClaim, is_abort_of
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight, follow
from ray_committer.stores.base import StoreOperations
from ray_committer.tables import checkpoint
from ray_committer.tables.append import decide
from ray_committer.tables.log import read_definition
from ray_committer.tables.put import put_entry


def release_own(
    store: StoreOperations, job: JobAttempt, aborted: JobState, now_milliseconds: int
) -> ClaimInFlight | None:
    """End the claim of a job whose state is `aborted`, before its directory is taken away; idempotent.
    Returns the claim, if it had one that had not ended.

    If it has none, the log says that the job was aborted: a process that has declared the job before can
    be about to put its claim, which nobody would end after that.
    """
    table = TablePlaces(job.destination)
    if aborted.table is None:
        return None
    definition = read_definition(store, table)
    if definition is None or definition.table_id != aborted.table.table_id:
        return None  # the log was deleted, and with it the claim
    # From the version of the set-up: no claim of this job can be before it.
    base, entries = checkpoint.read_since(store, table, definition.table_id, aborted.table.version)
    ended: ClaimInFlight | None = None
    while True:
        state = follow(base, entries)[0]
        pending_claims = [pending for pending in state.in_flight if _is_of(pending, job, aborted)]
        claims = [ClaimInFlight(at, entry) for at, entry in entries if isinstance(entry, TableClaim)]
        # All claims of the job attempt by its nonce, ended ones, too: an abort of an earlier job of the
        # id names none of them.
        mine = {
            pending.version for pending in (*base.in_flight, *claims) if _is_of(pending, job, aborted)
        }
        is_said = any(is_abort_of(entry, job.job_id, job.number, mine) for _, entry in entries)
        # Committed in the log, or said already. Otherwise the loop goes on until the entry is in, or
        # another process has put one that says the same.
        if any(pending.committed is not None for pending in pending_claims) or (
            is_said and not pending_claims
        ):
            return ended
        # The one that the abort is about; a later round may find it ended by this very entry.
        ended = pending_claims[0] if pending_claims else ended
        claim = pending_claims[0].version if pending_claims else NO_CLAIM
        entry = _abort_of(job, claim, state.quiet, state.named, now_milliseconds)
        entries += enumerate(put_entry(store, table, state.version + 1, entry), state.version + 1)


def release_if_aborted(
    store: StoreOperations, table: TablePlaces, stale: ClaimInFlight, now_milliseconds: int
) -> bool:
    """End the claim of another job if that was aborted; False if not, if it is gone, or committed."""
    claim = stale.claim
    current = job_of(store, table, claim)
    if current is None or current.phase is not Phase.ABORTED:
        return False
    job = new_job_attempt(table.destination, claim.job_id, claim.job_attempt)
    entry = _abort_of(job, stale.version, claim.quiet, claim.named, now_milliseconds)
    return isinstance(decide(store, table, entry)[1], TableAbort)


def job_of(store: StoreOperations, table: TablePlaces, claim: TableClaim) -> Seen | None:
    """The state of the job of a claim; None if it is gone, also if another job has its id now."""
    current = read_state(store, new_job_attempt(table.destination, claim.job_id, claim.job_attempt))
    return current if current is not None and current.state.stamp == claim.nonce else None


def how_to_end(store: StoreOperations, table: TablePlaces, pending: ClaimInFlight) -> str:
    """The commands that end the job of a claim in flight or, if the job is gone, the claim."""
    current = job_of(store, table, pending.claim)
    finish, give_up = commands_to_end(store, table, pending, current)
    if pending.committed is not None:
        gone = "gone, but it is " if current is None else ""
        return f"that job is {gone}committed: finish it with: {finish}"
    if current is None:
        return f"that job is gone: give it up with: {give_up}"
    if current.phase in UNDECIDED:
        return f"only its own process can finish that job: if that has ended, give it up with: {give_up}"
    ways = (f"finish that job with: {finish}", f"give it up with: {give_up}")
    return ", or ".join(way for way, command in zip(ways, (finish, give_up), strict=True) if command)


def commands_to_end(
    store: StoreOperations, table: TablePlaces, pending: ClaimInFlight, current: Seen | None
) -> tuple[str | None, str | None]:
    """The command that finishes the job of a claim in flight, and the one that gives it up, each if it
    does that as it is printed: how many tasks an undecided job has, only its application knows."""
    if current is None:
        resolve = resolve_command(store, table.destination, pending.claim)
        return (resolve, None) if pending.committed is not None else (None, resolve)
    job = new_job_attempt(table.destination, pending.claim.job_id, pending.claim.job_attempt)
    can_finish = current.phase in (Phase.RECORDED, Phase.SEALED, Phase.COMMITTED)
    can_give_up = pending.committed is None and current.phase not in (Phase.SEALED, Phase.COMMITTED)
    undo = current.phase in UNFINISHED
    return (
        commit_command(store, job) if can_finish else None,
        abort_command(store, job, undo=undo) if can_give_up else None,
    )


def _is_of(pending: ClaimInFlight, job: JobAttempt, state: JobState) -> bool:
    claim = pending.claim
    return (claim.job_id, claim.job_attempt, claim.nonce) == (job.job_id, job.number, state.stamp)


def _abort_of(job: JobAttempt, claim: int, quiet: int, named: int, now_milliseconds: int) -> TableAbort:
    return TableAbort(
        job_id=job.job_id,
        job_attempt=job.number,
        claim=claim,
        quiet=quiet,
        named=named,
        at_milliseconds=now_milliseconds,
        why="the job was aborted",
    )
