"""Find out how a job ended that other processes have ended, and possibly removed, in the meantime.

The log of its table keeps the answer for ever. Without a log it comes from ``_SUCCESS``, until another
job writes its own, or from a directory that was taken away and is not deleted yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    JobGoneError,
    JobNotFoundError,
    failed_request,
    mark,
)
from ray_committer.job_files.commands import abort_command, resolve_command
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.listing import jobs_at
from ray_committer.job_files.others import find_gone, is_gone_committed
from ray_committer.job_files.success import is_noted, success_if_told
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import JobAttempt, temporary_directory
from ray_committer.protocol.state import JobState, Phase
from ray_committer.protocol.success import SuccessData
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.cleanup_job import finish_cleanup
from ray_committer.stages.context import JobContext
from ray_committer.stages.save_commit_record import refuse_aborted
from ray_committer.stages.turns.claim_table import digest_of
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.tables.jobs_in_log import AbortedWithoutClaim, Logged, what_became


def finish_remnant(context: JobContext) -> tuple[Outcome, int | None]:
    """The outcome for a job with nothing left to commit, and the version of the table at which it was
    committed, if it has a log; an error if it was not committed."""
    job, store = context.job, context.store
    with _answers(job):
        # The log is asked first: it keeps every end, and `_SUCCESS` only the last one (D8).
        version = _version_in_log(context)
        if version is None and not (is_noted(store, job) or is_gone_committed(store, job)):
            _refuse_remnant(context)
        finish_cleanup(context)
    return Outcome.ALREADY_COMMITTED, version


def _refuse_remnant(context: JobContext) -> NoReturn:
    job = context.job
    if context.is_adopted and (current := read_state(context.store, job)) is not None:
        refuse_aborted(context, current.phase)  # what S3A's committer left is the job, as manifests are
    if context.options.expected_tasks is not None:
        raise JobGoneError(
            f"{mark(job.manifests)}: {context.options.expected_tasks} tasks succeeded but their "
            "manifests are gone, and _SUCCESS is not this job's",
            f"the job may have been committed by another "
            f"process, or another job's clean-up may have deleted all of {mark(job.temporary)}: "
            f"look for its files in {mark(job.destination)}",
        )
    if context.store.get_status(job.directory) is not None:
        context.notice(
            f"{mark(job.directory)}: holds only what paused processes wrote after the job had "
            f"ended; delete it with: {abort_command(context.store, job)}"
        )
    raise not_found(context.store, job.destination, job.job_id)


def _version_in_log(context: JobContext) -> int | None:
    """The version, with a notice, at which a job that is gone was committed to its table; None if the
    log has nothing of it, or there is no log. `CommitAbortedError` if it was aborted."""
    job = context.job
    end = end_in_log(context.store, job.destination, job.job_id, job.number)
    if end is None or not _is_same_work(context, end):
        return None
    if not end.is_committed:
        raise CommitAbortedError(
            f"{_entry(job, end)}: says that job {job.job_id} was aborted",
            "nothing of it is visible: run its application again",
        )
    context.notice(f"{_entry(job, end)}: says that job {job.job_id} is committed")
    return end.ended


def _is_same_work(context: JobContext, end: Logged | AbortedWithoutClaim) -> bool:
    """Whether the entries can be about this job: its driver knows its tasks, but ids are used again."""
    tasks = context.options.committed_tasks
    if tasks is None or end.claim is None:
        return True
    return end.claim.manifests == digest_of((task.manifest, task.digest) for task in tasks)


def end_in_log(
    store: StoreOperations, destination: str, job_id: str, number: int | None
) -> Logged | AbortedWithoutClaim | None:
    """How a job that is gone has ended, as the log of its table says; None if the log has nothing of it,
    or there is no log. `CommitStateUnknownError`, with the command to run, for an open claim."""
    end = what_became(store, destination, job_id, number)
    if end is None or end.has_ended or end.claim is None:
        return end
    what = (
        "committed, and old files that it replaced may still be there"
        if end.is_committed
        else "neither committed nor aborted"
    )
    raise CommitStateUnknownError(
        f"{mark(TablePlaces(destination).log)}: says that job {job_id} is {what}, and its directory is "
        "gone",
        f"nothing was changed: end its claim with: {resolve_command(store, destination, end.claim)}",
    )


def refuse_logged(context: JobContext) -> None:
    """`CommitRecordExistsError` if the log says that a gone job is committed; else as `end_in_log`."""
    job = context.job
    end = end_in_log(context.store, job.destination, job.job_id, job.number)
    if end is not None and end.is_committed:
        raise CommitRecordExistsError(
            f"{_entry(job, end)}: says that job {job.job_id} is committed",
            f"nothing was changed; to take it back, run: ray-committer table undo {context.url} "
            f"{end.ended}",
        )


def _entry(job: JobAttempt, end: Logged | AbortedWithoutClaim) -> str:
    return mark(TablePlaces(job.destination).entry(end.ended or 0))


def say_what_became(context: JobContext, last: Seen, nonce: str | None) -> Outcome:
    """The outcome for a job that was in the state `last`; `nonce` names its record, if it had one.
    `CommitAbortedError` if it was aborted, `CommitStateUnknownError` if nothing shows how it ended."""
    job = context.job
    with _answers(job):
        gone = find_gone(context.store, job, last.state.stamp)
        is_committed = _is_committed(context, last, nonce, gone)
    if is_committed:
        return by_another_process(context)
    if gone is not None:
        refuse_aborted(context, gone.phase)
    raise unknown_end(job)


@contextmanager
def _answers(job: JobAttempt) -> Iterator[None]:
    """`CommitStateUnknownError` if the store does not show how the job ended."""
    try:
        yield
    except OSError as e:
        raise CommitStateUnknownError(
            f"{failed_request(e, job.directory)}, so it is not known whether the job is committed",
            "nothing was changed: fix that and run the same command",
        ) from e


def by_another_process(context: JobContext) -> Outcome:
    """The outcome, with a notice, for a job that another process has committed."""
    context.notice(f"{mark(context.job.directory)}: was committed by another process")
    return Outcome.ALREADY_COMMITTED


def refuse_committed(context: JobContext, last: Seen) -> None:
    """Raise an error unless the other processes that ended and removed the job have aborted it.
    `CommitRecordExistsError` if it was committed, `CommitStateUnknownError` if nothing shows that."""
    job = context.job
    gone = find_gone(context.store, job, last.state.stamp)
    if gone is not None and gone.phase is Phase.ABORTED:
        return
    if _is_committed(context, last, last.state.record, gone):
        raise CommitRecordExistsError(
            f"{mark(job.directory)}: was committed by another process",
            f"its files are in {mark(job.destination)}",
        )
    raise unknown_end(job)


def _is_committed(context: JobContext, last: Seen, nonce: str | None, gone: JobState | None) -> bool:
    """Whether something shows that the job that was in the state `last`, and is gone, is committed."""
    job, store = context.job, context.store
    success = success_if_told(store, job.destination)
    if success is not None and _is_of(success, job, last, nonce):
        return True
    if gone is not None or last.state.table is None:
        return gone is not None and gone.phase is Phase.COMMITTED
    end = what_became(store, job.destination, job.job_id, job.number)
    is_own = end is not None and end.claim is not None and end.claim.nonce == last.state.stamp
    return end is not None and is_own and end.is_committed


def unknown_end(job: JobAttempt) -> CommitStateUnknownError:
    """The error for a job that other processes have ended without a trace."""
    return CommitStateUnknownError(
        f"{mark(job.directory)}: was ended by another process, and nothing shows whether it was "
        "committed or aborted",
        f"look for its files in {mark(job.destination)}. Nothing was changed by this run",
    )


def _is_of(success: SuccessData, job: JobAttempt, last: Seen, nonce: str | None) -> bool:
    """Whether ``_SUCCESS`` is of this very job; `nonce` names its record, if one is known."""
    facts = success.diagnostics or {}
    # A `_SUCCESS` without a stamp, as Hadoop's committer writes it, is judged by the id and the nonce.
    is_same = facts.get("stamp", last.state.stamp) == last.state.stamp
    return success.job_id == job.job_id and is_same and nonce in (None, facts.get("nonce"))


def not_found(store: StoreOperations, destination: str, job_id: str | None) -> JobNotFoundError:
    """The error for a missing job; `JobGoneError` if the job is named."""
    status, temporary = store.get_status(destination), temporary_directory(destination)
    if status is None or not status.is_directory:
        error = no_directory(destination, status)
        return error if job_id is None else job_gone(error, job_id)
    if job_id is None:
        return JobNotFoundError(
            f"{mark(temporary)}: holds no job to commit",
            "if there was one, it has ended, or another job's clean-up has deleted it",
        )
    job_ids = dict.fromkeys(status.job.job_id for status in jobs_at(store, destination))
    rest = ", ".join(name for name in job_ids if name != job_id)
    return JobGoneError(
        f"{mark(temporary)}: holds nothing of job {job_id} to commit, and _SUCCESS is not this job's",
        f"the job may have been committed before another job was, or deleted: look for its files in "
        f"{mark(destination)}" + (f". The jobs that are there: {rest}" if rest else ""),
    )


def job_gone(error: JobNotFoundError, job_id: str) -> JobGoneError:
    """The same error about a job that is named: what is missing now was there when that job ran."""
    what, advice = error.parts
    return JobGoneError(
        what,
        f"{advice}; if it is right, job {job_id} may have been committed before this was deleted "
        f"or replaced: look at the data before you run its application again",
    )


def no_directory(destination: str, status: FileStatus | None) -> JobNotFoundError:
    """The error for a destination that is missing, or has the `status` of a file."""
    what, advice = "is a file", "name the directory that the job wrote to"
    if status is None:
        what, advice = "does not exist", "check the destination's spelling"
    return JobNotFoundError(f"{mark(destination)}: {what}", advice)
