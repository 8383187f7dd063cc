"""End the job of a claim that is in the way of another job's claim, if that job has stopped.

A job that is not recorded is aborted, but only at the end of the waiting time: until then, the same
command can go on with it. A recorded job is finished, if the options say so. Two jobs that have claims
for earlier work can wait for each other, and each would take the other one for stopped. So only the job
with the earlier first claim aborts the other one.
"""

from __future__ import annotations

from ray_committer.errors import CommitConflictError
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.owners import has_ended, life_of
from ray_committer.job_files.read_job import read_other
from ray_committer.protocol.claims import Obstacle
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.record import Claim, Declaration
from ray_committer.protocol.state import UNDECIDED, UNFINISHED, Phase
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import Patience
from ray_committer.stages.other_jobs.end_others import ROUNDS, End, end_jobs, end_of, finish_first
from ray_committer.stores.links import refuse_links
from ray_committer.tables.claim import waited_too_long


def end_claim(context: JobContext, obstacle: Obstacle, patience: Patience, *, is_later: bool) -> bool:
    """End the job of the claim in the way, if that is permitted now; notices say so. False if it is not
    ended, so that this job waits. It `is_later` if it has a claim for earlier work, and the other job
    had its first claim before that. `CommitConflictError` if the waiting time is over."""
    is_same = obstacle.run_id is not None  # then this job waits for the end of its own work
    if not (patience.is_over or context.options.finish_others or is_same):
        return False
    claim = obstacle.other.claim
    job = new_job_attempt(context.job.destination, claim.job_id, claim.job_attempt)
    rival = _read(context, job, claim)
    if rival is None and patience.gone != obstacle.other.version:
        patience.gone = obstacle.other.version  # it may have ended just now: read the log again
        return True
    if rival is not None and (rival := patience.watch.judge(rival)).is_doubtful:
        return False
    how = None
    if rival is not None:
        how = _end_of(context, rival, patience, is_later=is_later, run_id=obstacle.run_id)
    if rival is not None and how is not None and patience.rounds < ROUNDS:
        patience.rounds += 1
        texts = end_jobs(context.store, [(rival, how)], context.end_other, context.sleep)
        return bool(list(map(context.notice, texts)))
    if patience.is_over:
        raise _refusal(context, obstacle, rival)
    return False


def _end_of(
    context: JobContext, rival: JobStatus, patience: Patience, *, is_later: bool, run_id: str | None
) -> End | None:
    options = context.options
    if rival.phase not in UNDECIDED:
        finish_others = options.finish_others
        return end_of(rival, options.unfinished, (), finish_others=finish_others, run_id=run_id)
    is_kept = run_id is None and options.unfinished in ("refuse", "finish")
    is_refused = rival.is_alive or is_later or is_kept
    is_time = patience.is_over or (run_id is not None and has_ended(rival.owner))
    return End.ABORT if is_time and not is_refused else None


def _read(context: JobContext, job: JobAttempt, claim: TableClaim) -> JobStatus | None:
    """The job of a claim; None if it is gone, or its id was set up again."""
    store, now = context.store, context.now_milliseconds()
    refuse_links(store, (job.directory, job.state))
    current = read_state(store, job)
    if current is None or current.state.stamp != claim.nonce:
        return None
    if current.phase is not Phase.OPEN:
        return read_other(store, job, now)
    writes = [join(job.destination, path) if path else job.destination for path in claim.partitions]
    declaration = Declaration(
        nonce=current.state.nonce,
        job_id=job.job_id,
        job_attempt=job.number,
        created_milliseconds=claim.at_milliseconds,
        owner=claim.owner,
        claim=Claim(writes),
    )
    life = life_of(claim.owner, claim.at_milliseconds, now)
    return JobStatus(job, seen=current, declared=declaration, life=life, worker=claim.owner)


def _refusal(context: JobContext, obstacle: Obstacle, rival: JobStatus | None) -> CommitConflictError:
    store, seconds = context.store, context.options.conflict_wait_seconds
    advice: str | None = None
    if rival is not None and rival.phase in UNFINISHED:
        finishes = rival.phase is not Phase.UNDOING and not rival.is_alive
        advice = finish_first(store, rival)[1] + (
            ", or let this job do so with --finish-others" if finishes else ""
        )
    return waited_too_long(store, TablePlaces(context.job.destination), obstacle, seconds, advice)
