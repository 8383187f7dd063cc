"""Remove what dead jobs left below a destination, and nothing that a commit could still need."""

from __future__ import annotations

import socket
import time
import uuid
from dataclasses import dataclass

from ray_committer.errors import CommitRecordExistsError, SettingsError
from ray_committer.open_job import StorageOptions, attempt_context, open_here, require_destination
from ray_committer.options import CommitOptions
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.commands import job_command
from ray_committer.stages.survey_jobs import ABORTING, survey_job
from ray_committer.stages.vacuum_jobs import Remains, find_remains
from ray_committer.stores.guarded import GuardedStore

WEEK_SECONDS = 7 * 86_400.0
LEAST_SECONDS = 3600.0
_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class VacuumedJob:
    """A directory below ``$dest/_temporary``, and what became of it.

    job_attempt: None for a directory that holds no job attempt.
    files, bytes: all in it, None if nobody looked; `age_seconds`: since the newest of it changed.
    removed: whether it was removed, or would be by a run that is not dry.
    reason: why it was kept, else None; `command`: what finishes a commit or an abort that was begun.
    """

    job_id: str
    job_attempt: int | None
    directory: str
    files: int | None
    bytes: int | None
    age_seconds: float | None
    removed: bool
    reason: str | None = None
    command: str | None = None


def vacuum_jobs(
    dest: str,
    *,
    older_than_seconds: float = WEEK_SECONDS,
    dry_run: bool = False,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> list[VacuumedJob]:
    """Remove the remains of dead jobs, and say of each other job why it is kept.

    Dead is a job without a commit record of which nothing has changed for `older_than_seconds`, at least
    an hour. Nobody can see from the store whether a task still runs: let it be longer than any task
    computes without writing. A job with a record is never touched. With `dry_run` nothing is removed.
    """
    if older_than_seconds < LEAST_SECONDS:
        raise SettingsError(
            f"older_than_seconds={older_than_seconds:g}: a job may run for that long without a sign of "
            f"life; give at least {LEAST_SECONDS:g}"
        )
    store, destination = open_here(dest, options, storage_options)
    require_destination(store, destination)
    now = time.time_ns() // 1_000_000
    found = find_remains(store, destination, older_than_seconds=older_than_seconds, now_milliseconds=now)
    return [_settle(store, dest, remains, now, options, dry_run=dry_run) for remains in found]


def _settle(
    store: GuardedStore, dest: str, remains: Remains, now: int, options: CommitOptions, *, dry_run: bool
) -> VacuumedJob:
    reason, newest = remains.kept, remains.newest_milliseconds
    if reason is None and not dry_run:
        reason = _remove(store, remains, options)
    return VacuumedJob(
        job_id=remains.job_id,
        job_attempt=remains.attempt.number if remains.attempt else None,
        directory=remains.directory,
        files=remains.files,
        bytes=remains.bytes,
        age_seconds=None if newest is None else max(0.0, (now - newest) / 1000),
        removed=reason is None,
        reason=reason,
        command=_command(store, dest, remains),
    )


def _remove(store: GuardedStore, remains: Remains, options: CommitOptions) -> str | None:
    """Remove it; the reason if it has to be kept after all."""
    if remains.attempt is None:
        remove = store.delete_directory if remains.files else store.remove_empty_directory
        remove(remains.directory)
        return None
    context = attempt_context(store, remains.attempt, options)
    try:
        abort_job(context, nonce=f"{socket.gethostname()}-{uuid.uuid4()}")
    except CommitRecordExistsError:
        return "its commit began just now"
    finally:
        context.executor.close()
    return None


def _command(store: GuardedStore, dest: str, remains: Remains) -> str | None:
    if remains.decided is None:
        return None
    is_aborting = survey_job(store, remains.decided).state == ABORTING
    is_other = remains.decided != remains.attempt
    verb = "abort" if is_aborting else "commit"
    return job_command(verb, dest, remains.decided, name_attempt=is_other)
