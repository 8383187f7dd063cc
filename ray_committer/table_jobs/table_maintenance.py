"""Remove partitions of a table with a log, and take back what a job has changed in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import SettingsError
from ray_committer.events import CancelToken, EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.options import CommitOptions
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_work import TableWork
from ray_committer.report.commit_report import CommitReport
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stages.context import JobContext
from ray_committer.table_jobs import undo_version as undo_version_stage
from ray_committer.table_jobs.drop_partitions import drop_partitions, plan_drop
from ray_committer.table_jobs.run_job import (
    OnResult,
    give_up_dead_jobs,
    own_options,
    partition_path,
    report_table_job,
)
from ray_committer.table_jobs.snapshot import definition_of

_DEFAULTS = CommitOptions()


def drop_partition(
    dest: str,
    partitions: Sequence[str],
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = _DEFAULTS,
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
    paths = [partition_path(one) for one in partitions]
    options = own_options(options)
    give_up_dead_jobs(dest, options, storage_options)
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        work = plan_drop(store, table, definition_of(store, table).table_id, paths)
    return report_table_job(
        dest,
        "drop",
        partial(_drop, work),
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
    options: CommitOptions = _DEFAULTS,
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
    options = own_options(options)
    give_up_dead_jobs(dest, options, storage_options)
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        table_id = definition_of(store, table).table_id
        plan = undo_version_stage.plan_undo(store, table, table_id, version)
    return report_table_job(
        dest,
        "undo",
        partial(_undo, plan),
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=on_event,
        cancel=cancel,
    )


def _drop(work: TableWork, context: JobContext, on_result: OnResult) -> CommitResult:
    return drop_partitions(context, work, on_result=on_result)


def _undo(plan: undo_version_stage.Undo, context: JobContext, on_result: OnResult) -> CommitResult:
    return undo_version_stage.undo_version(context, plan, on_result=on_result)
