"""Remove what the job left in ``_temporary``, after its commit point and only its own.

Hadoop's committers delete the whole of ``_temporary`` and with it the work of other jobs. The commit
point goes last, together with the attempt directory, so a run that was interrupted here is finished
by the next. Source: Hadoop CleanupJobStage.
"""

from __future__ import annotations

from ray_committer.errors import RayCommitterError
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.worker import Worker


def cleanup_job(context: JobContext, record: CommitRecord) -> bool:
    """Remove the job attempt's directory; False, with a notice, if the store refused to.

    A failure here does not fail the job, which is committed; the same command finishes the clean-up.
    """
    job, store = context.job, context.store
    attempts = dict.fromkeys(
        ref.task_attempt_directory
        for ref in record.manifests
        if ref.task_attempt_directory and is_inside(ref.task_attempt_directory, job.tasks)
    )
    try:
        for _ in context.executor.run_on_workers(_delete_directory, list(attempts)):
            pass
        store.delete_directory(job.tasks)
        store.delete_directory(job.manifests)
        store.delete_directory(job.directory)
        remove_empty_parents(context)
    except (OSError, RayCommitterError) as e:
        context.notice(
            f"{job.directory}: the job is committed but was not cleaned up ({e}); the same command "
            f"finishes that"
        )
        return False
    return True


def remove_empty_parents(context: JobContext) -> None:
    """Remove the job's directory and ``_temporary`` if nothing else is in them."""
    context.store.remove_empty_directory(context.job.job_directory)
    context.store.remove_empty_directory(context.job.temporary)


def _delete_directory(worker: Worker, path: str) -> bool:
    """Work: delete one task attempt directory."""
    return worker.store.delete_directory(path)
