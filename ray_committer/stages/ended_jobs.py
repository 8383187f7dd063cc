"""Find out how a job ended that other processes have ended, and possibly removed, in the meantime.

Its state is gone. So the answer comes from ``_SUCCESS``, or from a directory that was taken away and is
not deleted yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, JobGoneError
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.find_job import is_noted, not_found, success_if_told
from ray_committer.job_files.gone_jobs import find_gone, is_gone_committed
from ray_committer.job_files.job_state import Seen
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import SuccessData
from ray_committer.stages.cleanup_job import finish_cleanup
from ray_committer.stages.commit_result import Outcome
from ray_committer.stages.context import JobContext
from ray_committer.stages.save_commit_record import refuse_aborted


def finish_remnant(context: JobContext) -> Outcome:
    """The outcome for a job with nothing left to commit; an error if it was not committed."""
    with _answers(context.job):
        return _finish_remnant(context)


def _finish_remnant(context: JobContext) -> Outcome:
    job = context.job
    if not (is_noted(context.store, job) or is_gone_committed(context.store, job)):
        if context.options.expected_tasks is not None:
            raise JobGoneError(
                f"{job.manifests}: {context.options.expected_tasks} tasks succeeded but their manifests "
                f"are gone, and _SUCCESS is not this job's",
                f"the job may have been committed by another "
                f"process, or another job's clean-up may have deleted all of {job.temporary}: look for "
                f"its files in {job.destination}",
            )
        if context.store.get_status(job.directory) is not None:
            context.notice(
                f"{job.directory}: holds only what paused processes wrote after the job had ended; "
                f"delete it with: {abort_command(context.store, job)}"
            )
        raise not_found(context.store, job.destination, job.job_id)
    finish_cleanup(context)
    return Outcome.ALREADY_COMMITTED


def say_what_became(context: JobContext, seen: Seen, nonce: str | None) -> Outcome:
    """The outcome for a job that was in the state `seen`; `nonce` is that of its record, if it had one.

    `CommitAbortedError` if it was aborted, `CommitStateUnknownError` if nothing shows how it ended.
    """
    job = context.job
    with _answers(job):
        gone = find_gone(context.store, job, seen.state.stamp)
        success = success_if_told(context.store, job.destination)
    is_told = success is not None and _is_of(success, job, seen, nonce)
    if is_told or (gone is not None and gone.phase is Phase.COMMITTED):
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
            f"{e.filename or job.directory}: {e.strerror or e}, so it is not known whether the job is "
            f"committed",
            "nothing was changed: fix that and run the same command",
        ) from e


def by_another_process(context: JobContext) -> Outcome:
    """The outcome, with a notice, for a job that another process has committed."""
    context.notice(f"{context.job.directory}: was committed by another process")
    return Outcome.ALREADY_COMMITTED


def refuse_committed(context: JobContext, seen: Seen) -> None:
    """Raise an error unless the other processes that ended and removed the job have aborted it.

    `CommitRecordExistsError` if it was committed, `CommitStateUnknownError` if nothing shows that.
    """
    job = context.job
    gone = find_gone(context.store, job, seen.state.stamp)
    success = success_if_told(context.store, job.destination)
    if gone is not None and gone.phase is Phase.ABORTED:
        return
    is_told = success is not None and _is_of(success, job, seen, seen.state.record)
    if is_told or (gone is not None and gone.phase is Phase.COMMITTED):
        raise CommitRecordExistsError(
            f"{job.directory}: was committed by another process", f"its files are in {job.destination}"
        )
    raise unknown_end(job)


def unknown_end(job: JobAttempt) -> CommitStateUnknownError:
    """The error for a job that other processes have ended without a trace."""
    return CommitStateUnknownError(
        f"{job.directory}: was ended by another process, and nothing shows whether it was committed or "
        f"aborted",
        f"look for its files in {job.destination}. Nothing was changed by this run",
    )


def _is_of(success: SuccessData, job: JobAttempt, seen: Seen, nonce: str | None) -> bool:
    """Whether ``_SUCCESS`` belongs to the job that was `seen`, and not to another job with its id;
    `nonce` is that of its record, if one is known."""
    said = success.diagnostics or {}
    is_same = said.get("stamp", seen.state.stamp) == seen.state.stamp
    return success.job_id == job.job_id and is_same and nonce in (None, said.get("nonce"))
