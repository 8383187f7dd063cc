"""Keep the attempts of one job apart: at most one attempt of a job id is ever committed.

An older attempt gives way to a newer one that is not aborted. That one aborts the older ones first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ray_committer.errors import CommitRecordExistsError, mark
from ray_committer.job_files.commands import job_command
from ray_committer.job_files.follow_job import follow_job
from ray_committer.job_files.job_state import Seen, adopt_state, advance, read_state
from ray_committer.job_files.job_tree import JobTree
from ray_committer.job_files.listing import list_attempts
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import shown_url


def refuse_other_attempts(store: StoreOperations, job: JobAttempt, tree: JobTree | None = None) -> None:
    """`CommitRecordExistsError` if another attempt of this job is committed, or a newer one runs. Here
    and below, the `tree` of the job's files shows the attempts, if it was listed already."""
    for attempt in _others(store, job, tree):
        _refuse(store, job, attempt)


def abort_older_attempts(store: StoreOperations, job: JobAttempt, tree: JobTree | None = None) -> None:
    """Abort the older attempts of this job, so that none of them is committed as well; idempotent.
    `CommitRecordExistsError` if another attempt is being committed, or if a newer one is not aborted."""
    # All are judged before one is aborted: a refusal must leave every attempt as it was (D8).
    attempts = list(_others(store, job, tree))
    for attempt in attempts:
        _refuse(store, job, attempt)
    for attempt in attempts:
        if attempt.number < job.number:
            _abort(store, job, attempt)


def abort_other_attempts(store: StoreOperations, job: JobAttempt, tree: JobTree | None = None) -> None:
    """Abort the other attempts of a committed job before its own files are removed; idempotent. A newer
    attempt may have been set up after the check for other attempts and before the record."""
    for attempt in _others(store, job, tree):
        _abort(store, job, attempt)


def _refuse(store: StoreOperations, job: JobAttempt, attempt: JobAttempt) -> None:
    current = read_state(store, attempt)
    phase = current.phase if current else Phase.OPEN
    if phase is not Phase.ABORTED and (phase not in UNDECIDED or attempt.number > job.number):
        raise _gives_way(store, job, attempt, phase)


def _abort(store: StoreOperations, job: JobAttempt, attempt: JobAttempt) -> None:
    def step(current: Seen) -> Seen:
        if current.phase is Phase.ABORTED:
            return current
        if current.phase not in UNDECIDED:
            raise _gives_way(store, job, attempt, current.phase)
        return advance(store, attempt, current, Phase.ABORTED)

    first = adopt_state(store, attempt, Phase.ABORTED)
    if first is not None:
        follow_job(first, step)


def _others(store: StoreOperations, job: JobAttempt, tree: JobTree | None) -> Iterator[JobAttempt]:
    listed = tree.attempts(job.destination, job.job_id) if tree else list_attempts(store, job)
    return (attempt for attempt in listed if attempt.number != job.number)


def _gives_way(
    store: StoreOperations, job: JobAttempt, attempt: JobAttempt, phase: Phase
) -> CommitRecordExistsError:
    if phase in UNDECIDED:
        return CommitRecordExistsError(
            f"{mark(attempt.directory)}: attempt {attempt.number} of job {job.job_id} is newer than "
            f"attempt {job.number}, which can no longer be committed",
            f"commit or abort the newer attempt with --attempt {attempt.number}",
        )
    dest = shown_url(store.spec, attempt.destination)
    command = partial(job_command, dest=dest, job=attempt, name_attempt=True)
    commit, undo = command("commit"), command("abort", options=["--undo"])
    ends = {Phase.RECORDED: f"{commit}, or give it up with: {undo}", Phase.UNDOING: undo}
    return CommitRecordExistsError(
        f"{mark(attempt.directory)}: the commit of attempt {attempt.number} of job {job.job_id} has "
        "begun",
        f"finish it first with: {ends.get(phase, commit)}",
    )
