"""Do the rest for a job that is committed: ``_SUCCESS``, the log of its table, and the clean-up.

A failure here loses nothing, and the same command finishes it.
Source: Hadoop CreateSuccessMarker, CleanupJobStage.
"""

from __future__ import annotations

import logging
import threading
from functools import partial

from ray_committer.errors import RecordGoneError, mark
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.cleanup_job import cleanup_job, end_other_attempts
from ray_committer.stages.context import JobContext
from ray_committer.stages.old_data.old_files_aside import delete_old_files
from ray_committer.stages.old_data.old_success import delete_old_success
from ray_committer.stages.other_jobs.ended_jobs import by_another_process
from ray_committer.stages.run.commit_progress import CommitProgress
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stages.save_success_file import save_success_file, write_success_file
from ray_committer.stores.guarded import GuardedStore
from ray_committer.work.worker import Worker

LATER = "later"
_log = logging.getLogger(__name__)


def conclude_job(run: CommitRun, current: Seen, *, is_found: bool) -> None:
    """Put ``_SUCCESS`` in place, and clean up; what an earlier run has done is not done again. This run
    has committed the job, or found it committed, `is_found`; else another process was faster."""
    progress = run.progress
    is_own = is_found or progress.record is not None
    progress.outcome = Outcome.COMMITTED if is_own else by_another_process(run.context)
    try:
        record = progress.record or load_commit_record(run.context.store, run.context.job, current.state)
    except RecordGoneError:  # the clean-up, which comes last, has begun
        _tell_of_no_success(run.context)
        if end_other_attempts(run.context):
            cleanup_job(run.context, current, None)
        return
    if progress.record is None:
        run.note_record(record)
    context = run.context.as_recorded(record)
    delete_old_files(context, record)
    progress.table_version = run.turn.conclude()
    # The other attempts end first: while one is open, the job's directory is not removed (D8).
    is_last = _mark(context, progress, record, current)
    is_new_id = run.found.is_remembered
    if context.options.cleanup == LATER and is_last:
        # What is not cleaned up is what a commit leaves that dies here: others pass it, and the same
        # command finishes it. So nobody waits for this thread, and only the interpreter ends after it.
        clean_up = partial(_clean_up, context, current, record, is_new_id=is_new_id)
        threading.Thread(target=clean_up, name="ray-committer-cleanup", daemon=False).start()
    elif context.options.cleanup and is_last:
        with context.stage(names.CLEANUP, cancellable=False):
            cleanup_job(context, current, record, is_new_id=is_new_id)


def _tell_of_no_success(context: JobContext) -> None:
    """Report a missing ``_SUCCESS``, in case the record was not deleted by this job's clean-up."""
    path = context.job.success
    if context.options.mark_success and context.store.get_status(path) is None:
        context.notice(
            f"{mark(path)}: is not there, and its content is lost with the commit record; all files of "
            "the job are in place, so make an empty one if another program waits for it"
        )


def _mark(context: JobContext, progress: CommitProgress, record: CommitRecord, current: Seen) -> bool:
    """Put ``_SUCCESS`` in place, if the job has one, and end the other attempts; whether these ended."""
    if not record.mark_success:
        return end_other_attempts(context)
    with context.stage(names.SAVE_SUCCESS, cancellable=False):
        written = progress.success or write_success_file(
            context, record, progress.renamed.sample, table_version=progress.table_version
        )

        def replace_success() -> None:
            delete_old_success(context, record)
            save_success_file(context, written, current)

        is_last, _ = context.do_at_once(partial(end_other_attempts, context), replace_success)
        return bool(is_last)


def _clean_up(context: JobContext, committed: Seen, record: CommitRecord, *, is_new_id: bool) -> None:
    store, job, options = context.store.unguarded, context.job, context.options
    # The workers of the commit end when it returns; and an interpreter that ends starts no thread.
    executor = InlineExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True),
        RateLimit(options.max_requests_per_second),
    )
    guarded = GuardedStore(store, executor.permits, retry_seconds=options.retry_seconds)
    later = JobContext(guarded, job, options, executor, is_adopted=context.is_adopted)
    try:
        cleanup_job(later, committed, record, is_new_id=is_new_id)
    except Exception:  # noqa: BLE001 - nobody waits for this thread
        _log.warning("%s: the clean-up of the committed job has failed", context.url, exc_info=True)
    finally:
        executor.close()
    for notice in later.journal.notices:
        _log.warning("%s", notice)
