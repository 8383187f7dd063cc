"""Set up a job: make its directory and its state, and warn of other jobs with unfinished commits.

Source: Hadoop SetupJobStage.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    RayCommitterError,
    TaskCommitError,
)
from ray_committer.job_files.find_job import (
    attempt_of,
    read_attempt_state,
    skipped_link,
    success_if_told,
)
from ray_committer.job_files.gone_jobs import delete_gone, take_away
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, begin_state
from ray_committer.job_files.other_attempts import refuse_other_attempts
from ray_committer.job_files.other_jobs import OtherJob, finish_first, other_jobs
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import IN_THE_WAY, Phase, new_state
from ray_committer.stages.file_destination import (
    hidden_name,
    hide_file_destination,
    restore_hidden_file,
)
from ray_committer.stores.base import StoreOperations


def setup_job(
    store: StoreOperations,
    job: JobAttempt,
    *,
    replaces: Sequence[str] = (),
    must_be_empty: bool = False,
    now_milliseconds: int | None = None,
) -> tuple[str, list[str]]:
    """Make the job attempt's directories and its state; `TaskCommitError` if it was set up before.

    Returns the job's stamp, which its tasks put into their manifests, and a list of warnings. The
    warnings name unfinished commits at the destination, since running their applications again would
    double rows, and symbolic links, since unfinished commits may be behind them.

    `replaces` are the directories that the job replaces. If they include the whole destination, the job
    is refused while a stopped commit is there, because finishing that commit later would bring its rows
    back; if the destination is a file, that file is hidden until the job has ended. Nothing else that
    readers see changes. With `must_be_empty`, the job is refused before its tasks run if the destination
    contains data; its commit checks this again.
    """
    is_hidden = hide_file_destination(store, job, replaces_it=job.destination in replaces)
    try:
        stamp, warnings = _set_up(store, job, replaces, must_be_empty, now_milliseconds)
    except Exception:
        if is_hidden:
            restore_hidden_file(store, job)
        raise
    if is_hidden:
        warnings.append(
            f"{job.destination}: was a file, which is kept as {hidden_name(job)} until this job is "
            f"committed or aborted"
        )
    return stamp, warnings


def _set_up(
    store: StoreOperations,
    job: JobAttempt,
    replaces: Sequence[str],
    must_be_empty: bool,
    now_milliseconds: int | None,
) -> tuple[str, list[str]]:
    if must_be_empty:
        refuse_data(store, job.destination)
    now = time.time_ns() // 1_000_000 if now_milliseconds is None else now_milliseconds
    others = other_jobs(store, job.destination, now, own=job)
    stopped = [one for one in others.jobs if _has_stopped(one)]
    in_the_way = [one for one in stopped if one.phase in IN_THE_WAY]
    if in_the_way and job.destination in replaces:
        what, advice = finish_first(store, in_the_way[0])
        raise CommitConflictError(what, f"{advice}; after that, the destination can be replaced")
    if read_attempt_state(store, job).exists:
        raise TaskCommitError(
            f"{job.directory}: exists already", "give every job and every job attempt its own id"
        )
    refuse_other_attempts(store, job)
    if store.capabilities.moves_directories:
        store.mkdirs(job.directory)
    try:
        seen = begin_state(store, job, new_state(replaces=bool(replaces)))
    except (FileExistsError, FileNotFoundError) as e:
        raise TaskCommitError(
            f"{job.directory}: another process set it up, or ended it, at the same time",
            "give every job and every job attempt its own id",
        ) from e
    store.mkdirs(job.manifests)
    try:
        refuse_other_attempts(store, job)
        _refuse_committed(store, job)
    except RayCommitterError:
        _give_up(store, job, seen)
        raise
    unfinished = ["; ".join(finish_first(store, one)) for one in stopped]
    hidden = [f"{skipped_link(one)}; a job there may have begun its commit" for one in others.links]
    return seen.state.stamp, [*unfinished, *hidden]


def _refuse_committed(store: StoreOperations, job: JobAttempt) -> None:
    """`CommitRecordExistsError` if an attempt of the job is committed.

    A first attempt can follow a committed first attempt: its job reuses the id.
    """
    success = success_if_told(store, job.destination)
    if success is None or success.job_id != job.job_id:
        return
    if job.number > 0 or attempt_of(success, job.number) > 0:
        raise CommitRecordExistsError(
            f"{job.directory}: another attempt of job {job.job_id} is committed",
            f"its files are in {job.destination}",
        )


def _give_up(store: StoreOperations, job: JobAttempt, seen: Seen) -> None:
    """Abort a job that was set up but is refused; ``vacuum`` deletes what remains after an error."""
    with suppress(OSError, RayCommitterError, StateChangedError):
        aborted = advance(store, job, seen, Phase.ABORTED)
        gone = take_away(store, job, aborted)
        if gone is not None:
            delete_gone(store, gone, aborted)


def refuse_data(store: StoreOperations, destination: str) -> None:
    """`CommitConflictError` if the destination contains anything that readers see."""
    if name := first_data(store, destination):
        raise CommitConflictError(f"{destination}: holds data already ({name})", "nothing was changed")


def first_data(store: StoreOperations, destination: str) -> str | None:
    """Return the first name at the destination that readers see; None if there is none."""
    try:
        names = [status.name for status in store.list_status(destination)]
    except FileNotFoundError:
        return None
    return min((name for name in names if not name.startswith(("_", "."))), default=None)


def _has_stopped(other: OtherJob) -> bool:
    """Whether a commit was recorded and no process is at work on it."""
    return other.seen.state.is_decided and not other.is_alive
