"""Run a job that is made from the log of its table: set up, write, commit; or give it up.

Until the job is recorded it leaves nothing. It is an ordinary job of this package, so a job that is
recorded is finished, or undone, as any other. Only the process that made it can record it, because only
this process knows which files it has read.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    CommitRecordExistsError,
    RayCommitterError,
    TableLogGoneError,
    mark,
    why,
)
from ray_committer.events import CancelToken
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.listing import jobs_at
from ray_committer.job_files.owners import at_work, has_ended
from ray_committer.job_files.read_job import last_sign, read_job
from ray_committer.options import CommittedTask
from ray_committer.places.task_files import TaskFiles, task_files
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_work import TableWork
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.heartbeat import heartbeat, signing_off
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.base import StoreOperations
from ray_committer.work.worker import Worker

_ENDED = (Exception, KeyboardInterrupt)
_GIVEN_UP: dict[type[BaseException], str] = {
    CommitConflictError: "nothing was changed, and this job was given up: if the job that is named has "
    "not ended, end it; then run the same command again",
    CommitCancelledError: "nothing was changed, and this job was given up: run the same command again",
}
"""The advice after a job has failed and was given up; the error's own would name it."""


def run_table_job(
    context: JobContext,
    work: TableWork,
    write: Callable[[JobContext], Iterable[CommittedTask]],
    *,
    on_result: Callable[[CommitResult], None] = lambda _: None,
) -> CommitResult:
    """Set up the new job of `context`, let `write` run its tasks, and commit it as `work` says; after a
    failure give it up, unless it is recorded. Of a task, `write` returns the attempt that counts."""
    setup_job(
        context.store,
        context.job,
        from_log=True,
        unfinished=context.options.unfinished,
        finish_others=context.options.finish_others,
        end=context.end_other,
        on_warning=context.notice,
    )
    try:
        run = new_nonce()
        with at_work(run), signing_off(context, run):
            # At once, and also before the record: `dead_table_jobs` takes a job of this kind for dead
            # only by its last beat.
            with heartbeat(context, run, lambda: 0, at_once=True):
                tasks = tuple(write(context))
            context.check_cancelled()
            return _commit(context, work, tasks, on_result)
    except _ENDED as e:
        _give_up(context, e)
        raise


def write_task(worker: Worker, number: int, write: Callable[[TaskFiles, str], None]) -> CommittedTask:
    """Run one attempt of a task: `write` gets its files and a name that no other attempt has.

    If a lost worker's task is run again, each attempt has its own manifest, and the driver names the
    one that counts.
    """
    store, job = worker.store, worker.job
    stem = f"{job.job_id}_m_{number:06d}_{secrets.randbelow(2**31)}"
    task_attempt_id = f"attempt_{stem}"
    directory, stamp = setup_task(store, job, task_attempt_id)
    files = task_files(store, job.destination, directory, stamp)
    try:
        write(files, stem)
    except _ENDED:
        if files.uploads is not None:
            files.uploads.abort()
        abort_task(store, job, task_attempt_id)
        raise
    return commit_task(
        store,
        job,
        task_id=f"task_{stem}",
        task_attempt_id=task_attempt_id,
        stamp=stamp,
        attempts=1,
        named=files.named,
        uploads=files.uploads,
    )


def dead_table_jobs(store: StoreOperations, destination: str) -> Sequence[JobAttempt]:
    """The jobs of this kind that are not recorded, and whose process has certainly ended. One that waits
    for other jobs, or has just set up its job, gives no sign of life."""
    attempts = (status.job for status in jobs_at(store, destination) if status.is_open)
    return [attempt for attempt in attempts if _is_dead(store, attempt)]


def _is_dead(store: StoreOperations, job: JobAttempt) -> bool:
    current = read_state(store, job)
    if current is None or not current.state.is_bound:
        return False
    beat = last_sign(store, job)[1]
    return beat is not None and has_ended(beat.owner)


def _commit(
    context: JobContext,
    work: TableWork,
    tasks: tuple[CommittedTask, ...],
    on_result: Callable[[CommitResult], None],
) -> CommitResult:
    state = read_job(context.store, context.job)
    table = state.seen.state.table if state.seen else None
    if table is None or table.table_id != work.table_id:
        raise TableLogGoneError(
            f"{mark(context.job.destination)}: is not the table {work.table_id} any more"
        )
    roots = tuple(join(context.job.destination, path) for path in work.partitions)
    options = context.options.changed(
        mode=ConflictMode.APPEND if work.names_files else ConflictMode.OVERWRITE,
        table_work=work,
        expected_tasks=len(tasks),
        committed_tasks=tasks,
        ignore_other_attempts=True,
        mark_success=False,
    )
    return commit_job(
        replace(context, options=options),
        state,
        replaced_roots=() if work.names_files else roots,
        on_result=on_result,
    )


def _give_up(context: JobContext, error: BaseException) -> None:
    """Abort a job that has failed; the `error` says what is left if that is not possible."""
    try:
        abort_job(replace(context, cancelled=CancelToken()))
    except CommitRecordExistsError:
        _advise(error, f"finish this job with: {commit_command(context.store, context.job)}")
    except (OSError, RayCommitterError) as e:
        _advise(
            error,
            f"this job was not given up ({why(e)}); run: {abort_command(context.store, context.job)}",
        )
    else:
        text = _GIVEN_UP.get(type(error))
        if text is not None:
            _advise(error, text, instead=True)


def _advise(error: BaseException, text: str, *, instead: bool = False) -> None:
    if isinstance(error, RayCommitterError):
        error.advise(text, instead=instead)
    else:
        error.add_note(text)
