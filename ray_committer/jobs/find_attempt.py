"""Find the job attempt that a command is about, also one that Hadoop's S3A committer left."""

from __future__ import annotations

import shlex
import time

from ray_committer.errors import (
    CommitStateUnknownError,
    JobGoneError,
    JobNotFoundError,
    SettingsError,
)
from ray_committer.job_files import find_job
from ray_committer.job_files.adopt_job import adopt_job
from ray_committer.job_files.job_tree import named_tree
from ray_committer.job_files.magic_jobs import find_left
from ray_committer.job_files.other_attempts import refuse_other_attempts
from ray_committer.job_files.other_jobs import finish_first, other_jobs
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import WITH_RECORD
from ray_committer.protocol.success import SuccessData
from ray_committer.stages.ended_jobs import end_in_log
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import shown_url


def guarded_here(store: StoreOperations, options: CommitOptions) -> GuardedStore:
    """The store for the few requests that this process makes itself."""
    permits = Permits(RateLimit(options.max_requests_per_second), "here", is_here=True)
    return GuardedStore(store, permits, retry_seconds=options.retry_seconds)


def find_or_adopt(
    store: GuardedStore,
    destination: str,
    job_id: str | None,
    number: int | None,
    *,
    to_commit: bool,
    is_dry_run: bool,
) -> tuple[JobAttempt, find_job.AttemptState, bool]:
    """Find the attempt and its state. A job that was not set up here can be one that Hadoop's S3A
    committer left: if it is to be committed, it is adopted; True is returned with it.

    `SettingsError` for a dry run of such a job.
    """
    error: JobNotFoundError | None = None
    try:
        job, state = _find(store, destination, job_id, number, to_commit=to_commit)
        if state.is_set_up or job_id is None:
            return job, state, False
    except JobNotFoundError as e:
        error = e
    left = find_left(store, destination, job_id, number) if job_id else None
    if left is None or (to_commit and not left.pendingsets):
        if error is not None:
            raise error
        return job, state, False
    if is_dry_run:
        status = shlex.join(["ray-committer", "status", shown_url(store.spec, destination)])
        raise SettingsError(
            f"{left.directory}: is a job of Hadoop's S3A committer, for which a dry run is not "
            f"supported",
            f"run `{status}`: it shows the job, and the commands that finish it or give it up",
        )
    if to_commit:
        adopt_job(store, left)
    return *_find(store, destination, job_id, left.number, to_commit=to_commit), True


def _find(
    store: StoreOperations,
    destination: str,
    job_id: str | None,
    number: int | None,
    *,
    to_commit: bool,
) -> tuple[JobAttempt, find_job.AttemptState]:
    """Find the attempt and its state.

    With `to_commit` also check the other attempts, unless this one is recorded: then it is the one that
    counts. A driver that knows its tasks knows its attempt, and needs no such check.
    """
    tree = named_tree(store, destination, job_id) if job_id is not None else None
    try:
        job = find_job.find_job_attempt(store, destination, job_id, number, tree)
    except JobNotFoundError:
        if job_id is None:
            _refuse_mislaid(store, destination)
        logged = _logged(store, destination, job_id, number) if job_id is not None else None
        if logged is not None:
            return logged, find_job.AttemptState()
        success = _success(store, destination, strict=job_id is None)
        if success is None or success.job_id is None or job_id not in (None, success.job_id):
            raise
        noted = find_job.attempt_of(success, number or 0)
        if number not in (None, noted):
            raise
        job = new_job_attempt(destination, success.job_id, noted)
    state = find_job.read_state_and_manifests(store, job, tree)
    documented = None if state.exists else find_job.find_documented_attempt(store, job)
    if documented is not None:
        job, state = documented, find_job.read_attempt_state(store, documented)
    if state.exists and not state.is_decided:
        _confirm(store, job, is_named=job_id is not None)
    if to_commit and number is not None and state.phase not in WITH_RECORD:
        refuse_other_attempts(store, job, tree)
    return job, state


def _logged(
    store: StoreOperations, destination: str, job_id: str, number: int | None
) -> JobAttempt | None:
    """The attempt of a job that is gone, of which the log of its table says how it has ended."""
    found = end_in_log(store, destination, job_id, number)
    return None if found is None else new_job_attempt(destination, job_id, found.number)


def _refuse_mislaid(store: StoreOperations, destination: str) -> None:
    """`CommitStateUnknownError` if a process that slept took away the directory of a recorded job: then
    ``_SUCCESS`` belongs to another job."""
    for other in other_jobs(store, destination, time.time_ns() // 1_000_000).jobs:
        raise CommitStateUnknownError(*finish_first(store, other))


def _success(store: StoreOperations, destination: str, *, strict: bool) -> SuccessData | None:
    """The destination's ``_SUCCESS``. If it cannot be read, that is an error only with `strict`, where
    it must name the job."""
    read = find_job.read_success if strict else find_job.success_if_told
    return read(store, destination)


def _confirm(store: StoreOperations, job: JobAttempt, *, is_named: bool) -> None:
    try:
        find_job.confirm_documented(store, job)
    except JobNotFoundError as e:
        if not is_named:
            raise
        raise JobGoneError(*e.args) from e
