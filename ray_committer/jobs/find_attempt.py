"""Find the job attempt that a command is about, also one that Hadoop's S3A committer left."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import suppress

from ray_committer.errors import (
    AmbiguousJobError,
    CommitStateUnknownError,
    JobGoneError,
    JobNotFoundError,
    SettingsError,
    mark,
)
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.job_tree import JobTree, list_tree
from ray_committer.job_files.listing import (
    find_documented_attempt,
    find_s3a,
    in_directories,
    jobs_at,
    named,
    readable,
)
from ray_committer.job_files.manifests import list_manifest_files, read_listed
from ray_committer.job_files.others import other_jobs
from ray_committer.job_files.read_job import read_job, read_job_and_manifests
from ray_committer.job_files.success import attempt_of, read_success, success_if_told
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt, temporary_directory
from ray_committer.protocol.state import WITH_RECORD
from ray_committer.stages.adopt_job import adopt_job
from ray_committer.stages.other_jobs.end_others import finish_first
from ray_committer.stages.other_jobs.ended_jobs import end_in_log, not_found
from ray_committer.stages.other_jobs.other_attempts import refuse_other_attempts
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
) -> tuple[JobStatus, bool]:
    """Find the attempt and its state. A job that was not set up here can be one that Hadoop's S3A
    committer left: if it is to be committed, it is adopted; True is returned with it.

    `SettingsError` for a dry run of such a job.
    """
    error: JobNotFoundError | None = None
    try:
        state = _find(store, destination, job_id, number, to_commit=to_commit)
        if state.is_set_up or job_id is None:
            return state, False
    except JobNotFoundError as e:
        error = e
    left = find_s3a(store, destination, job_id, number) if job_id else None
    if left is None or (to_commit and not left.manifests):
        if error is not None:
            raise error
        return state, False
    if is_dry_run:
        status = shlex.join(["ray-committer", "status", shown_url(store.spec, destination)])
        raise SettingsError(
            f"{mark(left.job.directory)}: is a job of Hadoop's S3A committer, for which a dry run is "
            "not supported",
            f"run `{status}`: it shows the job, and the commands that finish it or give it up",
        )
    if to_commit:
        adopt_job(store, left)
    return _find(store, destination, job_id, left.job.number, to_commit=to_commit), True


def _find(
    store: StoreOperations, destination: str, job_id: str | None, number: int | None, *, to_commit: bool
) -> JobStatus:
    """Find the attempt and its state. With `to_commit` also check the other attempts, unless this one is
    recorded: then it counts. A driver that knows its tasks knows its attempt, and needs no check."""
    tree = None
    if job_id is not None:
        tree = list_tree(store, new_job_attempt(destination, job_id, 0).job_directory)
    try:
        job = find_job_attempt(store, destination, job_id, number, tree)
    except JobNotFoundError:
        if job_id is None:
            # `_SUCCESS` is another job's if a process that slept took a recorded job away.
            for rival in other_jobs(store, destination, time.time_ns() // 1_000_000):
                if rival.has_begun:
                    raise CommitStateUnknownError(*finish_first(store, rival)) from None
            success = read_success(store, destination)
        else:
            # The log first: the next job replaces `_SUCCESS`, and no entry of the log (D8).
            ended = end_in_log(store, destination, job_id, number)
            if ended is not None:
                return JobStatus(new_job_attempt(destination, job_id, ended.number), exists=False)
            success = success_if_told(store, destination)  # it need not name this job
        if success is None or success.job_id is None or job_id not in (None, success.job_id):
            raise
        noted = attempt_of(success, number or 0)
        if number not in (None, noted):
            raise
        job = new_job_attempt(destination, success.job_id, noted)
    state = read_job_and_manifests(store, job, tree)
    documented = None if state.exists else find_documented_attempt(store, job)
    if documented is not None:
        state = read_job(store, documented)
    if state.exists and not state.is_decided:
        try:
            confirm_documented(store, state.job)
        except JobNotFoundError as e:
            if job_id is None:
                raise
            raise JobGoneError(*e.args) from e
    if to_commit and number is not None and state.phase not in WITH_RECORD:
        refuse_other_attempts(store, state.job, tree)
    return state


def find_job_attempt(
    store: StoreOperations,
    destination: str,
    job_id: str | None,
    number: int | None,
    tree: JobTree | None = None,
) -> JobAttempt:
    """Find the one attempt of one job that these arguments select.

    With both `job_id` and `number` this makes no request, and the attempt possibly does not exist; so it
    is for one in the `tree` of a named job's files, if that is given.
    Raises `JobNotFoundError`, `JobGoneError` for a job that is named, or `AmbiguousJobError` if several
    qualify.
    """
    if job_id is not None and number is not None:
        return new_job_attempt(destination, job_id, number)
    attempts = tree.attempts(destination, job_id) if tree is not None and job_id is not None else ()
    if attempts:
        return _choose_attempt([JobStatus(attempt) for attempt in attempts], number)
    return _choose_attempt(_find_job(store, destination, job_id), number)


def confirm_documented(store: StoreOperations, job: JobAttempt) -> None:
    """`JobNotFoundError` if a directory that is named as in Hadoop's documentation is another job's.

    Its manifests show which job it belongs to. A directory with any other name needs no request.
    """
    name = job.job_directory.rpartition("/")[2]
    if name == job.job_id:
        return
    owner = _job_id_of_manifests(store, job)
    if owner != job.job_id:
        what = (
            f"belongs to job {owner}"
            if owner
            else "may belong to a job of that name: no manifest shows whose it is"
        )
        raise JobNotFoundError(
            f"{mark(job.job_directory)}: {what}, so it is not used as job {job.job_id}",
            f"nothing was done. To use that directory, name the job {owner or name}",
        )


def _job_id_of_manifests(store: StoreOperations, job: JobAttempt) -> str | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        for status in list_manifest_files(store, job):
            return decode_manifest(read_listed(store, status), status.path).job_id
    return None


def _find_job(store: StoreOperations, destination: str, job_id: str | None) -> Sequence[JobStatus]:
    """The attempts and links in the directory of the one job that is meant, or that directory itself."""
    jobs = jobs_at(store, destination)
    if job_id is not None:
        if not (meant := named(jobs, job_id)):
            raise not_found(store, destination, job_id)
        return meant
    every = list(in_directories(jobs).values())
    shown = [group for group in every if group[0].is_attempt or not group[0].is_link] or every
    live = [group for group in shown if any(status.may_hold_an_attempt for status in group)] or shown
    if not live:
        raise not_found(store, destination, None)
    if len(live) > 1:
        raise AmbiguousJobError(
            f"{mark(temporary_directory(destination))}: holds {len(live)} jobs "
            f"({', '.join(group[0].job.job_id for group in live)})",
            "name one with --job-id",
        )
    return live[0]


def _choose_attempt(jobs: Sequence[JobStatus], number: int | None) -> JobAttempt:
    attempts, first = list(readable(jobs)), jobs[0]
    numbers = [attempt.number for attempt in attempts]
    if number is not None:
        if number in numbers:
            return attempts[numbers.index(number)]
        raise JobNotFoundError(f"{mark(first.directory)}: has no attempt {number}, only {numbers}")
    if len(attempts) > 1:
        raise AmbiguousJobError(
            f"{mark(first.directory)}: has the attempts {numbers}", "name one with --attempt"
        )
    if attempts:
        return attempts[0]
    place = first.opened().job  # not a link
    return new_job_attempt(place.destination, place.job_id, 0)
