"""Remove partitions of a table with a log, and take back what a job has changed in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import uuid4

from ray_committer.errors import PathError, SettingsError
from ray_committer.events import CancelToken, EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.end_job import ending, without_facts
from ray_committer.jobs.open_job import StorageOptions, attempt_context, open_here, open_new_job
from ray_committer.jobs.report_run import report_run
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import SUCCESS, TEMPORARY
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.recording import Recording
from ray_committer.stages.abort_job import abort_job
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs import undo_version as undo_version_stage
from ray_committer.table_jobs.drop_partitions import drop_partitions, plan_drop
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.table_jobs.table_job import dead_table_jobs

T = TypeVar("T")


def drop_partition(
    dest: str,
    partitions: Sequence[str],
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
) -> CommitReport:
    """Remove all files of some partitions of a table, in one step for readers of its log.

    As any other overwrite does, the job removes the files that a listing shows, also those that the log
    does not name. `PathError` if a partition has no files. `CommitConflictError`, with nothing changed,
    if the log names a file that is not there, or if another job is at work there for too long.
    """
    if isinstance(partitions, str) or not partitions:
        raise SettingsError(f"partitions={partitions!r}: must be a list of at least one partition")
    paths = [partition_path(partition) for partition in partitions]
    options = without_facts(options, job_attempt=0, allowed_roots=())
    work = _planned(dest, options, storage_options, partial(plan_drop, partitions=paths))
    return _report_table_job(
        dest,
        "drop",
        partial(drop_partitions, work=work),
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=on_event,
        cancel=cancel,
    )


def undo_version(
    dest: str,
    version: int,
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
) -> CommitReport:
    """Take back what the job of a version has changed, by a new job: the files that it has removed come
    back, and those that it has added are removed.

    `TableVersionGoneError` if it has deleted files, and not kept them. `CommitConflictError`, with
    nothing changed, if a later job has changed the same partitions. `JobNotFoundError` if no job was
    committed at that version.
    """
    options = without_facts(options, job_attempt=0, allowed_roots=())
    undo = partial(undo_version_stage.plan_undo, version=version)
    plan = _planned(dest, options, storage_options, undo)
    return _report_table_job(
        dest,
        "undo",
        partial(undo_version_stage.undo_version, plan=plan),
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=on_event,
        cancel=cancel,
    )


def _planned(
    dest: str,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    plan: Callable[[StoreOperations, TablePlaces, str], T],
) -> T:
    """What a new job has to do; before that, remove what processes have left that died before their job
    of this kind was recorded."""
    with open_here(dest, options, storage_options) as (store, destination):
        for job in dead_table_jobs(store, destination):
            with attempt_context(store, job, options) as context:
                abort_job(context)
        table = TablePlaces(destination)
        return plan(store, table, definition_of(store, table).table_id)


def _report_table_job(
    dest: str,
    kind: str,
    run: Callable[..., object],
    *,
    executor: ExecutorName | CommitPool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_event: EventSink,
    cancel: CancelToken | None,
) -> CommitReport:
    """Let `run` run a new job of this kind; its report."""
    recording, reports = Recording(), list[CommitReport]()
    with open_new_job(
        dest,
        f"{kind}-{uuid4()}",
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=recording.before(on_event),
        cancel=cancel,
    ) as context:

        def report(result: CommitResult) -> None:
            reports.append(report_run(recording, context, result))

        end = ending(context.store.spec, options, storage_options, executor=executor, cancel=cancel)
        run(replace(context, end_other=end), on_result=report)
    return reports[0]


def partition_path(text: str) -> str:
    """A partition as the log names it; `PathError` if it cannot be a directory of a table's data."""
    path = text.strip("/")
    names = path.split("/")
    is_own = names[0] in (TEMPORARY, SUCCESS) or is_hidden(path)
    if not path or is_own or any(name in ("", ".", "..") for name in names):
        raise PathError(
            f"{text!r}: is not a partition", "name a directory relative to the table, such as day=1"
        )
    return path
