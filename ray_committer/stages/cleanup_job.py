"""Remove what the job left in ``_temporary``, after its commit point and only its own.

Hadoop's committers delete the whole of ``_temporary`` and with it the work of other jobs. The commit
point goes last, together with the attempt directory, so a run that was interrupted here is finished
by the next. Source: Hadoop CleanupJobStage.
"""

from __future__ import annotations

from ray_committer.errors import RayCommitterError
from ray_committer.protocol.paths import JobAttempt, is_inside, is_name, join
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.worker import Worker

FEW_ATTEMPTS = 32
"""So many attempt directories, empty by now, one request may delete; of more, it could time out."""


def cleanup_job(context: JobContext, record: CommitRecord) -> bool:
    """Remove the job attempt's directory; False, with a notice, if the store refused to.

    A failure here does not fail the job, which is committed; the same command finishes the clean-up.
    """
    job, store = context.job, context.store
    attempts = {directory for ref in record.manifests if (directory := _attempt_directory(job, ref))}
    one_by_one = sorted(attempts) if len(attempts) > FEW_ATTEMPTS else []
    try:
        work = batches(context.executor, [*(one_by_one or [job.tasks]), job.manifests])
        for _ in context.executor.run(_delete_directories, work):
            pass
        if one_by_one:
            store.delete_directory(job.tasks)  # and what failed attempts left in it
        store.delete_directory(job.directory)
        remove_empty_parents(context)
    except (OSError, RayCommitterError) as e:
        context.notice(
            f"{job.directory}: the job is committed but was not cleaned up ({e}); the same command "
            f"finishes that"
        )
        return False
    return True


def _attempt_directory(job: JobAttempt, ref: ManifestRef) -> str | None:
    """Where a committed task attempt had its files; None if that is not below this job's tasks."""
    directory = ref.task_attempt_directory
    if directory is None and is_name(ref.task_attempt_id or ""):
        directory = join(job.tasks, ref.task_attempt_id or "")
    return directory if directory and is_inside(directory, job.tasks) else None


def remove_empty_parents(context: JobContext) -> None:
    """Remove the job's directory and ``_temporary`` if nothing else is in them."""
    context.store.remove_empty_directory(context.job.job_directory)
    context.store.remove_empty_directory(context.job.temporary)


def _delete_directories(worker: Worker, paths: tuple[str, ...]) -> int:
    """Work: delete some task attempt directories."""
    return sum(worker.map(worker.store.delete_directory, paths))
