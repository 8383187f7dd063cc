"""End the claim of a job that is gone: finish it if the log says that it is committed, or give it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    JobNotFoundError,
    failed_request,
)
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.stages.other_jobs.ended_jobs import job_gone
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.decide_claim import Repair, find_claim, finish_committed, give_up_claims
from ray_committer.table_jobs.remove_listed_files import Removal
from ray_committer.table_jobs.remove_orphans import remove_orphans
from ray_committer.tables.jobs_in_log import Logged


@dataclass(frozen=True, slots=True)
class ResolvedClaim:
    """The claim of a job, and what became of it.

    claim: the version of the claim; `version`: of the entry that decides it.
    is_committed: whether the job is committed in the log, or given up.
    removed: the number of files that were removed: old files, or new files of a job that was given up.
    kept: the files that were not removed, and why.
    """

    job_id: str
    job_attempt: int
    claim: int
    version: int
    is_committed: bool
    removed: int
    kept: tuple[str, ...] = ()


def resolve_claim(
    dest: str,
    job_id: str,
    *,
    job_attempt: int | None = None,
    accept_lost: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> ResolvedClaim:
    """End the claim of a job whose directory below ``_temporary`` was deleted; idempotent.

    If the log says that the job is committed, the old files that it replaces are removed. If new files
    are lost then, nothing is removed, unless `accept_lost`. Otherwise the job is given up, and its new
    files that are in their places with proof are removed.

    `TableClaimError` if the job is there. `ValidationError` if a new file of a committed job is lost.
    `JobGoneError` if the log has no claim of the job, or is not there. `CommitConflictError` if another
    job is at work where new files of a job that was given up are: they stay until the next call.
    """
    with (
        open_here(dest, options, storage_options) as (store, destination),
        unknown_if_it_fails(destination),
    ):
        return resolve_on(
            store,
            destination,
            job_id,
            job_attempt=job_attempt,
            accept_lost=accept_lost,
            waiting=Waiting(options.conflict_wait_seconds),
        )


def resolve_on(
    store: StoreOperations,
    destination: str,
    job_id: str,
    *,
    job_attempt: int | None = None,
    accept_lost: bool = False,
    waiting: Waiting,
) -> ResolvedClaim:
    """`resolve_claim` on a store that is open."""
    try:
        repair = Repair.at(store, destination, waiting)
    except JobNotFoundError as e:
        raise job_gone(e, job_id) from e
    logged = find_claim(repair, job_id, job_attempt)
    claim = logged.claim
    if logged.committed is not None:
        version = logged.committed
        removal = finish_committed(repair, logged, version, accepts_lost=accept_lost)
    else:
        version, removal = give_up_claims(repair, logged), Removal()
    # After the decision is in the log: before it, the job could still be committed with these files.
    orphans = _remove(repair, logged, version)
    removed, kept = removal.removed + orphans.removed, (*removal.kept, *orphans.kept)
    is_committed = logged.committed is not None
    return ResolvedClaim(
        claim.job_id, claim.job_attempt, logged.version, version, is_committed, removed, kept
    )


@contextmanager
def unknown_if_it_fails(destination: str) -> Iterator[None]:
    """`CommitStateUnknownError` if a request to the store fails: the log may be changed by then."""
    try:
        yield
    except OSError as e:
        raise CommitStateUnknownError(
            failed_request(e, destination),
            "no file without proof was removed: fix that and run the same command to finish",
        ) from e


def _remove(repair: Repair, logged: Logged, version: int) -> Removal:
    """Remove the new files of the claims of a job that were given up; files of an import stay."""
    given_up = (
        []
        if logged.committed is not None
        else [*(attempt_claim.claim for attempt_claim in logged.others), logged.claim]
    )
    claims = [claim for claim in (*logged.given_up, *given_up) if not claim.is_import]
    files = {file.path: file for claim in claims for file in repair.files(claim, claim.files)}
    if not files:
        return Removal()
    try:
        return remove_orphans(repair, [*files.values()])
    except CommitConflictError as e:
        raise CommitConflictError(
            f"{e.parts[0]}. The claim of job {logged.claim.job_id} is given up (version {version})",
            "its new files were not removed: run the same command again when that job has ended",
        ) from e
