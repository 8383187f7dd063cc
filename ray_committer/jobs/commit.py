"""The public operations on jobs: set up, commit, abort, and the doctor.

Read-only operations and the removal of dead jobs are in other modules: a commit imports neither.
Every function first opens the store that the destination's URL names, and refuses a store whose rename
is a copy. `ray_committer.errors` has the errors.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from ray_committer.errors import (
    CommitRecordExistsError,
    IncompleteJobError,
    StoreFailedError,
    StoreRefusedError,
    mark,
    shown,
)
from ray_committer.events import CancelToken, EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName, open_pool
from ray_committer.jobs.abort_report import AbortReport, report_abort
from ray_committer.jobs.end_job import ending
from ray_committer.jobs.open_job import (
    StorageOptions,
    located_errors,
    open_here,
    open_job,
    roots_on_store,
)
from ray_committer.jobs.report_run import report_run
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.promises.lines import Diagnosis
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import WITH_RECORD
from ray_committer.report.command import catalog_command
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.notebook import shown_in_notebook
from ray_committer.report.recording import Recording
from ray_committer.stages import abort_job as abort_job_stage
from ray_committer.stages import commit_job as commit_job_stage
from ray_committer.stages import setup_job as setup_job_stage
from ray_committer.stages import undo_job as undo_job_stage
from ray_committer.stages.other_jobs.ended_jobs import refuse_logged
from ray_committer.stages.save_summary_report import save_abort_report
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import open_store, resolve_destination, shown_url
from ray_committer.work.load_ahead import LoadAhead

_log = logging.getLogger(__name__)
Report = TypeVar("Report", CommitReport, AbortReport)


@contextmanager
def commit_pool(
    options: CommitOptions = CommitOptions(), *, name: str = "default", shared: bool = False
) -> Iterator[CommitPool]:
    """Keep commit workers on Ray for many commits of this driver, also for several at once.

    Pass the pool to `commit_job` as `executor`, or to `ray_committer.spark.install`. The workers start
    once, by `options` (workers, worker_cpus), and end with the block.

    A `shared` pool serves all drivers of the Ray cluster that use its `name`. The first driver starts it
    with its own options. The pool outlives its drivers, and ends half a minute after the last one has
    left. All its commits share one limit of requests per store, from the options that started it.
    """
    pool = open_pool(options, name if shared else None)
    try:
        yield pool
    finally:
        pool.close()


def commit_job(
    dest: str,
    job_id: str | None = None,
    *,
    committed: Sequence[CommittedTask | None] | None = None,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
    on_report: Callable[[CommitReport], None] = lambda _: None,
) -> CommitReport:
    """Commit a job: move every file of its successful tasks, and no other file, to its place.

    Idempotent: another run finishes an interrupted commit, and reports that a committed job is already
    committed. Without `job_id` the destination must hold exactly one job. By calling it, a driver states
    that all tasks have ended (`CommitOptions.assume_complete`).

    committed: what each task has committed (`TaskAttempt.committed`). Exactly that is committed, and
        attempts that were lost, or ran twice, do not count. Without it, and without
        `CommitOptions.expected_tasks`, a task attempt that has files but no manifest stops the commit.
    executor: "inline", "threads", "ray", or "auto", which chooses between the last two; or a pool.
    on_event: gets each event of `ray_committer.events`; any thread can call it. Without it, a notebook
        shows the progress.
    cancel: stops the commit from another thread.
    on_report: gets the report, also if the run fails.

    `CommitStateUnknownError` if it stopped in the middle: everything was kept, call it again.
    `CommitConflictError` if something else is in the place of a file, or another job is in the way:
    nothing was replaced. `CommitAbortedError`, `ManifestError` and `IncompleteJobError`: nothing was
    changed. `ValidationError` if the destination differs from the manifests. Never delete anything
    because this call failed.

    >>> report = commit_job(dest, "job_1", options=CommitOptions(expected_tasks=2))
    >>> report.outcome.value, report.moved
    ('committed', 2)
    >>> commit_job(dest, "job_1").outcome.value
    'already committed'
    """
    with shown_in_notebook(on_event) as sink:
        return run_commit(
            dest,
            job_id,
            executor=executor,
            options=_exactly(options, committed, dest),
            storage_options=storage_options,
            on_event=sink,
            cancel=cancel,
            on_report=on_report,
        )


def record_job(
    dest: str,
    job_id: str | None = None,
    *,
    committed: Sequence[CommittedTask | None] | None = None,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
) -> CommitReport:
    """Check a job and write its commit record; a later `commit_job` does the rest.

    From then on the outcome is fixed: only the files that the record names are committed, and only an
    undo (`abort_job` with `undo`) gives the job up. Nothing is visible yet. Idempotent: for a job that
    is recorded it changes nothing. `committed` and the errors are as for `commit_job`.

    >>> record_job(dest, "job_1").outcome.value
    'recorded'
    >>> commit_job(dest, "job_1").resumed
    True
    """
    return run_commit(
        dest,
        job_id,
        executor=executor,
        options=_exactly(options, committed, dest),
        storage_options=storage_options,
        on_event=on_event,
        record_only=True,
    )


def run_commit(
    dest: str,
    job_id: str | None,
    *,
    executor: ExecutorName | CommitPool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_event: EventSink,
    cancel: CancelToken | None = None,
    on_report: Callable[[CommitReport], None] = lambda _: None,
    record_only: bool = False,
    ahead: LoadAhead | None = None,
) -> CommitReport:
    """Commit a job, or only record it. `ahead` is what was loaded of its tasks while they ran."""
    recording = Recording()
    with open_job(
        dest,
        job_id,
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=recording.before(on_event),
        to_commit=True,
        cancel=cancel,
    ) as job:
        end = ending(job.context.store.spec, options, storage_options, executor=executor, cancel=cancel)
        reports: list[CommitReport] = []

        def report(result: CommitResult) -> None:
            tells = catalog_command(result, job.context.options.catalog_table)
            reports.append(report_run(recording, job.context, result, catalog_command=tells))
            _tell(on_report, reports[0])

        commit_job_stage.commit_job(
            replace(job.context, end_other=end),
            job.state,
            replaced_roots=job.replaced_roots,
            allowed_roots=job.allowed_roots,
            record_only=record_only,
            ahead=ahead,
            on_result=report,
        )
        return reports[0]


def setup_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_warning: Callable[[str], None] = _log.warning,
    on_stamp: Callable[[str], None] = lambda _: None,
) -> str:
    """Set up a job at `dest` and return its id, a new one if none is given.

    What readers see does not change. Not idempotent: `TaskCommitError` if a job of this id is there.

    options: with a mode that replaces data, the job is marked and can only be committed as such. With
        ERROR it is refused if the destination holds data already; with ERROR_PARTITIONS only the commit
        can check that, since it finds the partitions. Neither can be committed as an append.
    on_warning: gets a text for each job that was ended, for each other job at the destination whose
        commit never ended, and for each symbolic link in the place of a job, since links are not
        followed. By default the texts are logged.
    on_stamp: gets the job's stamp, for tasks that write their manifests without this package.

    An earlier job at the destination that was recorded and whose process has died is ended first, or
    this job is refused with `CommitConflictError`, as `CommitOptions.unfinished` says: this job may be
    the same application, run again, and would then double the rows.
    """
    return set_up(
        dest,
        job_id or str(uuid.uuid4()),
        is_new_id=not job_id,
        options=options,
        storage_options=storage_options,
        on_warning=on_warning,
        on_stamp=on_stamp,
    )


def set_up(
    dest: str,
    job_id: str,
    *,
    is_new_id: bool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_warning: Callable[[str], None],
    on_stamp: Callable[[str], None],
) -> str:
    """Set up a job, as `setup_job`. `is_new_id` says that nobody will use its id for another one."""
    with open_here(dest, options, storage_options) as (store, destination):
        job = new_job_attempt(destination, job_id, options.job_attempt or 0)
        stamp = setup_job_stage.setup_job(
            store,
            job,
            replaces=_to_be_replaced(options, job, store.spec),
            must_be_empty=_to_be_empty(options, job),
            unfinished=options.unfinished,
            finish_others=options.finish_others,
            needs_table=options.keep_replaced is True,
            run_id=options.run_id,
            writes=(destination, *roots_on_store(options.allowed_roots, store.spec)),
            is_new_id=is_new_id,
            end=ending(store.spec, options, storage_options),
            on_warning=lambda text: on_warning(shown(text, shown_url(store.spec, ""))),
        )
        on_stamp(stamp)
        return job.job_id


def _exactly(
    options: CommitOptions, committed: Sequence[CommittedTask | None] | None, dest: str
) -> CommitOptions:
    """The options with the attempts that count; `IncompleteJobError` if a task has none."""
    if committed is None:
        return options
    tasks = tuple(task for task in committed if task is not None)
    if len(tasks) < len(committed):
        raise IncompleteJobError(
            f"{mark(dest)}: {len(committed) - len(tasks)} of {len(committed)} tasks have handed out "
            "nothing that was committed",
            "nothing was changed: run these tasks again",
        )
    return options.changed(expected_tasks=len(tasks), committed_tasks=tasks, ignore_other_attempts=True)


def _to_be_replaced(options: CommitOptions, job: JobAttempt, spec: StoreSpec) -> tuple[str, ...]:
    """The directories that a job will replace, as far as they are known before its tasks run."""
    if options.mode is ConflictMode.OVERWRITE_PARTITIONS:
        return (job.any_partition,)
    if options.mode is ConflictMode.OVERWRITE:
        return roots_on_store(options.replaced_roots, spec) or (job.destination,)
    return ()


def _to_be_empty(options: CommitOptions, job: JobAttempt) -> tuple[str, ...]:
    """The directories in which a job wants no data, as far as they are known before its tasks run."""
    if options.mode is ConflictMode.ERROR_PARTITIONS:
        return (job.any_partition,)
    return (job.destination,) if options.mode is ConflictMode.ERROR else ()


def abort_job(
    dest: str,
    job_id: str | None = None,
    *,
    undo: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    on_report: Callable[[AbortReport], None] = lambda _: None,
) -> bool:
    """Abort a job: delete the output of its tasks. False if only leftovers of an ended job were there.

    An abort that stopped is finished by the same call. `JobGoneError` if a job that is named is not
    there: it was aborted, or it was committed before another job. `on_report` gets what was deleted.

    After the commit has begun, it raises `CommitRecordExistsError` and deletes nothing; also if the log
    of a table says that a job that is named is committed. With `undo` it gives up a commit that was
    recorded and has not begun to replace data: the files that the commit has moved are taken back. A
    file that was changed since then is possibly not the job's; it stays, and a `Notice` names it.
    `CommitterBusyError` if a process is at work on the commit that is to be undone.
    `CommitStateUnknownError` if the store failed in the middle: call it again.

    >>> abort_job(dest, "job_1")
    True
    """
    with open_job(
        dest,
        job_id,
        executor="threads" if undo else "inline",
        options=options,
        storage_options=storage_options,
        on_event=on_event,
    ) as job:
        try:
            # Before "nothing was there": a log may say that a job is committed whose directory is gone.
            if job_id is not None and abort_job_stage.is_nothing(job.state):
                refuse_logged(job.context)
            if undo:
                roots = (*job.replaced_roots, *job.allowed_roots)
                is_aborted = undo_job_stage.undo_job(job.context, job.state, allowed_roots=roots)
            else:
                is_aborted = abort_job_stage.abort_job(job.context)
        except CommitRecordExistsError:  # the job goes on, and its commit has a report
            raise
        except Exception as e:
            save_abort_report(job.context, e)
            raise
        if is_aborted:
            save_abort_report(job.context, None)
        report = report_abort(job.context, was_recorded=undo and job.state.phase in WITH_RECORD)
        _tell(on_report, report)
        return is_aborted


def doctor(
    dest: str,
    *,
    executor: ExecutorName = "auto",
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> Diagnosis:
    """Check what a commit to `dest` depends on: its store, the Ray cluster and the installed Spark.

    The checks use their own files below ``$dest/_temporary`` and remove them; idempotent. It takes some
    seconds; on Ray as long as its workers take to start. A store that is refused is a failed line, not
    an error. `lines` of the result has each check, and `failed` is true if a commit would fail or would
    not be safe.
    """
    # Only this operation needs all of it.
    from ray_committer.promises.examine import RETRY_SECONDS, examine, refused

    shown_dest = without_password(dest)
    try:
        spec, destination = resolve_destination(dest, storage_options)
        with located_errors(spec):
            store = open_store(spec, retry_seconds=RETRY_SECONDS)
    except (StoreRefusedError, StoreFailedError) as e:
        return refused(shown_dest, e.what, e.advice)
    except OSError as e:
        return refused(shown_dest, f"{e.filename}: {e.strerror}", "fix that and run the same command")
    return examine(store, destination, executor, options)


def _tell(on_report: Callable[[Report], None], report: Report) -> None:
    """Pass on a report; the outcome does not depend on who reads it."""
    try:
        on_report(report)
    except Exception:  # noqa: BLE001 - whatever it is, the job has ended as it has ended
        _log.warning("the function that gets the report has failed", exc_info=True)
