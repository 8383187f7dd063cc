"""Remove the leftovers of dead jobs below a destination, and nothing that a commit can still need."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    RayCommitterError,
    SettingsError,
)
from ray_committer.job_files.commands import ENDS, is_beside_others, job_command
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.read_job import read_job
from ray_committer.job_files.success import is_noted
from ray_committer.jobs.open_job import StorageOptions, attempt_context, open_here, require_destination
from ray_committer.jobs.remains import Remains, at_work, find_remains
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, temporary_directory
from ray_committer.protocol.state import Phase
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.take_away import sweep_gone
from ray_committer.stores.guarded import GuardedStore
from ray_committer.tables.jobs_in_log import JobsInLog, read_jobs_in_log

WEEK_SECONDS = 7 * 86_400.0
LEAST_SECONDS = 3600.0
_COMMITTED = "it was committed in the meantime"


@dataclass(frozen=True, slots=True)
class VacuumedJob:
    """A directory below ``$dest/_temporary``, and whether it was removed.

    job_attempt: None for a directory that holds no job attempt.
    had_ended: it holds leftovers of a job that was committed or aborted, perhaps under the name
        (`job_id`) that its clean-up gave it, or nothing.
    files, bytes: counts of all files in it, None if they were not counted; `age_seconds`: time since the
        newest change in it.
    removed: whether it was removed or, in a dry run, would be.
    reason: why it was kept, else None; `command`: the command that finishes a commit or an abort that
        has begun.
    claim: the version of its claim in the log of a table, which ends if the job is removed.
    """

    job_id: str
    job_attempt: int | None
    directory: str
    files: int | None
    bytes: int | None
    age_seconds: float | None
    removed: bool
    had_ended: bool = False
    reason: str | None = None
    command: str | None = None
    claim: int | None = None


def vacuum_jobs(
    dest: str,
    *,
    older_than_seconds: float = WEEK_SECONDS,
    dry_run: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> list[VacuumedJob]:
    """Remove the leftovers of dead jobs, and report for each other job why it is kept.

    A job is dead if it has no commit record and nothing in it has changed for `older_than_seconds`, at
    least an hour. The store does not show whether a task still runs, so use more time than any task
    computes without writing. A job with a record, or with a committer that is alive, is never touched.
    The rest of an ended job whose clean-up was stopped goes at any age. A `dry_run` removes nothing.
    """
    refuse_young(older_than_seconds)
    with open_here(dest, options, storage_options) as (store, destination):
        require_destination(store, destination)
        now = time.time_ns() // 1_000_000
        remains = find_remains(
            store, destination, older_than_seconds=older_than_seconds, now_milliseconds=now
        )
        in_log = JobsInLog(store)
        with suppress(RayCommitterError):  # each job whose claim cannot end gives it as its reason
            in_log = read_jobs_in_log(store, destination)
        settle = partial(_settle, store, dest, in_log, now, options, dry_run=dry_run)
        settled = list(map(settle, remains))
        if not dry_run:
            with suppress(PermissionError, NotADirectoryError):  # another job's clean-up removes it
                store.remove_empty_directory(temporary_directory(destination))
        return settled


def refuse_young(older_than_seconds: float) -> None:
    """`SettingsError` for an age that a running job can have."""
    if older_than_seconds < LEAST_SECONDS:
        raise SettingsError(
            f"older_than_seconds={older_than_seconds:g}: a running job can be without a sign of life "
            f"for that long",
            f"use at least {LEAST_SECONDS:g}",
        )


def _settle(
    store: GuardedStore,
    dest: str,
    in_log: JobsInLog,
    now: int,
    options: CommitOptions,
    remains: Remains,
    *,
    dry_run: bool,
) -> VacuumedJob:
    job = remains.status.job
    logged = in_log.of(remains.attempt) if remains.attempt else None
    reason, newest, decided = remains.kept, remains.newest_milliseconds, remains.decided
    if reason is None and not dry_run:
        try:
            reason = _remove(store, remains, now, options)
        except PermissionError as e:
            reason = f"{e.filename or job.directory}: no permission to remove it"
        decided = remains.attempt if reason is not None else None
    return VacuumedJob(
        job_id=job.job_id,
        job_attempt=remains.attempt.number if remains.attempt else None,
        directory=job.directory,
        files=remains.files,
        bytes=remains.bytes,
        age_seconds=None if newest is None else max(0.0, (now - newest) / 1000),
        removed=reason is None,
        had_ended=remains.has_ended and reason is None,
        reason=reason,
        command=_command(store, dest, decided),
        claim=logged.claim if logged else None,
    )


def _remove(store: GuardedStore, remains: Remains, now: int, options: CommitOptions) -> str | None:
    """Remove the directory; return the reason if it must be kept after all."""
    job = remains.status.job
    if job.is_gone:
        return None if sweep_gone(store, job) else "it belongs to a job that has not ended"
    if remains.attempt is None:
        remove = store.delete_directory if remains.files else store.remove_empty_directory
        remove(job.directory)
        return None
    state = read_job(store, job)
    if not state.exists and is_noted(store, job):
        return _COMMITTED
    if not state.exists and not state.is_husk:
        return "it has ended in the meantime"
    # The listing of the remains may be minutes old: each job is looked at before it goes (D10).
    if state.phase is Phase.DECLARED and (reason := at_work(store, job, now)):
        return reason
    try:
        with attempt_context(store, job, options) as context:
            abort_job(context)
    except CommitRecordExistsError:
        is_over = read_state(store, job) is None
        return _COMMITTED if is_over else "its commit has just begun"
    except CommitStateUnknownError as e:
        return str(e)
    return None


def _command(store: GuardedStore, dest: str, decided: JobAttempt | None) -> str | None:
    """The command that finishes the commit of an attempt, its undo or its abort."""
    current = read_state(store, decided) if decided is not None else None
    if decided is None or current is None or current.phase not in ENDS:
        return None
    verb, *words = ENDS[current.phase]
    name_attempt = is_beside_others(store, decided)
    return job_command(verb, dest, decided, name_attempt=name_attempt, options=words)
