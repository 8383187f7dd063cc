"""Remove the job's own directory from ``_temporary`` after the job is committed, and nothing else.

Hadoop's committers delete the whole of ``_temporary``, and with it the work of other jobs. Here the
directory is taken away in one step, so that a late process deletes nothing of a later job. The next run,
or ``vacuum``, finishes a clean-up that was interrupted. Source: Hadoop CleanupJobStage.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from ray_committer.errors import RayCommitterError, failed_request, mark, why
from ray_committer.job_files.commands import commit_command, vacuum_command
from ray_committer.job_files.job_state import Seen, delete_state, read_state
from ray_committer.job_files.job_tree import JobTree, list_tree
from ray_committer.job_files.listing import task_directories
from ray_committer.job_files.others import is_gone_committed
from ray_committer.job_files.spark_uploads import end_spark_uploads
from ray_committer.job_files.success import is_noted
from ray_committer.places.base import tasks_of
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.adopt_job import remove_left
from ray_committer.stages.context import JobContext
from ray_committer.stages.other_jobs.other_attempts import abort_other_attempts
from ray_committer.stages.sync_to_disk import sync_taken_away
from ray_committer.stages.take_away import delete_gone, is_still, remove_husk, sweep_all_gone, take_away
from ray_committer.work.batches import batches, delete_directories

FEW_DIRECTORIES = 32
"""On any store, one deletion can include this many directories of tasks, which are empty by now."""


def cleanup_job(
    context: JobContext, committed: Seen, record: CommitRecord | None, *, is_new_id: bool = False
) -> bool:
    """Remove the directory of a committed job attempt, after `end_other_attempts` has succeeded; False,
    with a notice, if the store refused to. `record` is None if an earlier clean-up has removed it. A
    failure here does not fail the job, which is committed; the same command finishes the clean-up.
    `is_new_id` says that this process has set the job up, with an id that was drawn for it."""
    store = context.store
    try:
        _remove_adopted(context)
        if (tree := list_tree(store, context.job.job_directory)) is not None:
            _delete_tree(context, tree, committed, record.digests if record else ())
            return True
        gone = take_away(store, context.job, committed, is_new_id=is_new_id)
        if gone is not None:
            sync_taken_away(context)
            most = record.tasks + record.files if record else 0
            delete = partial(_delete, context, gone, committed, most)
            above = partial(store.remove_empty_directory, context.job.job_directory)
            context.do_at_once(delete, *([above] if gone != context.job else []))
        else:  # another process has removed the job, before this one wrote ``_SUCCESS`` in it
            remove_husk(store, context.job)
        remove_empty_parents(context, is_moved=gone not in (None, context.job))
    except (OSError, RayCommitterError) as e:
        is_in_log = committed.state.table is not None
        command = _commit_command(context) if is_in_log else _finishing_command(context)
        _note_failure(context, context.job.directory, e, command)
        return False
    return True


def end_other_attempts(context: JobContext) -> bool:
    """Abort the other attempts of a committed job, unless its clean-up does; idempotent. False, with a
    notice, if the store refused to: then nothing must be cleaned up."""
    if context.places.cleanup_ends_attempts and context.options.cleanup:
        return True
    try:
        abort_other_attempts(context.store, context.job)
    except (OSError, RayCommitterError) as e:
        _note_failure(context, context.job.directory, e, _commit_command(context))
        return False
    return True


def _delete_tree(context: JobContext, tree: JobTree, committed: Seen, digests: Sequence[str]) -> None:
    """Abort the other attempts and delete all of this one, by one listing of the job, if that shows the
    state `committed`; the state goes last, if it has not changed. Uploads are looked for only if an
    attempt that does not count has noted some, or for a job of Spark."""
    store, job = context.store, context.job
    # Another process has removed the job, and perhaps set it up again: nothing of that is touched (D7).
    if not tree.is_in_state(job, committed):
        return
    abort_other_attempts(store, job, tree)
    end_spark_uploads(store, job, partial(is_still, store, job, committed))
    if tree.has_left(job, digests):
        delete_gone(store, job, committed)
        return
    store.delete_objects(tree.own(job))
    delete_state(store, job, committed)


def finish_cleanup(context: JobContext) -> None:
    """Delete what an earlier clean-up took away and did not delete, because it was interrupted."""
    try:
        _remove_adopted(context)
        sweep_all_gone(context.store, context.job)
        remove_empty_parents(context)
    except (OSError, RayCommitterError) as e:
        _note_failure(context, context.job.temporary, e, _commit_command(context))


def _remove_adopted(context: JobContext) -> None:
    """Remove what S3A has left of the job, before its state goes: then no run takes it for a new job."""
    if context.is_adopted:
        remove_left(context.store, context.job, is_committed=True)


def _commit_command(context: JobContext) -> str:
    # One try: the store that has just failed may not answer for minutes, and the job is committed.
    return commit_command(context.store.unguarded, context.job)


def _finishing_command(context: JobContext) -> str:
    """The command that removes what is left. A commit finds the job as long as something shows that it
    is committed: its state, the log of its table, ``_SUCCESS``, or what was taken away. Nothing else is
    left then but remains that only `vacuum` removes, by their age."""
    store, job = context.store.unguarded, context.job
    is_known = True
    with suppress(OSError, RayCommitterError):
        looks = (read_state, is_noted, is_gone_committed)
        is_known = any(look(store, job) for look in looks)
    return commit_command(store, job) if is_known else vacuum_command(store, job.destination)


def _note_failure(context: JobContext, path: str, error: Exception, command: str) -> None:
    context.notice(
        f"{mark(path)}: the job is committed but was not cleaned up ({why(error)}); clean up with: "
        f"{command}"
    )


def _delete(context: JobContext, gone: JobAttempt, committed: Seen, most: int) -> None:
    """Delete what was taken away: first the directories in which tasks wrote, about `most` of them, on
    all workers, where their deletion takes one request per name. Elsewhere a listing gains nothing."""
    if most > FEW_DIRECTORIES and context.places.clears_attempts(context.job):
        places = tasks_of(context.store, gone)
        listed = (task_directories(context.store, place.tasks) for place in places)
        directories = [path for paths in chain.from_iterable(listed) for path in paths]
        if len(directories) > FEW_DIRECTORIES:
            for _ in context.executor.run(delete_directories, batches(context.executor, directories)):
                pass
    delete_gone(context.store, gone, committed)


def remove_empty_parents(context: JobContext, *, is_moved: bool = False) -> None:
    """Remove the job's directory, unless it `is_moved` away, and ``_temporary``, if they are empty."""
    if not is_moved:
        context.store.remove_empty_directory(context.job.job_directory)
    context.store.remove_empty_directory(context.job.temporary)


def remove_what_was_late(context: JobContext) -> None:
    """Remove the directories that this process made for a job after the job was gone.

    A failure is a notice: what became of the job does not depend on it.
    """
    try:
        remove_husk(context.store, context.job)
        remove_empty_parents(context)
    except OSError as e:
        context.notice(f"{failed_request(e, context.job.directory)}: what a late request made is left")
