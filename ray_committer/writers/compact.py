"""Compact a table with a log: rewrite its small Parquet files as fewer larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.cancellation import CancelToken
from ray_committer.errors import SettingsError, some_of
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.snapshot import definition_of
from ray_committer.jobs.table_job import (
    OnResult,
    give_up_dead_jobs,
    own_options,
    partition_path,
    report_table_job,
)
from ray_committer.options import CommitOptions
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.report.commit_report import CommitReport
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stages.compact_table import Compaction, compact_table, plan_compaction
from ray_committer.stages.context import JobContext
from ray_committer.writers.rewrite_parquet import rewrite_bin

TARGET_BYTES = 128 * 1024 * 1024
_DEFAULTS = CommitOptions()


def compact(
    dest: str,
    partitions: Sequence[str] = (),
    target_bytes: int = TARGET_BYTES,
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
) -> CommitReport | None:
    """Rewrite the Parquet files of a table that are smaller than `target_bytes`, in some `partitions` or
    in all; None if there is nothing to do.

    Rows, their order in a file, schemas, metadata and compression stay. Files of one partition are
    written together up to the target, if their schemas and metadata are the same. Jobs can append at the
    same time. `CommitConflictError`, with nothing changed, if another job replaces data there;
    `SettingsError` if a file is not Parquet.
    """
    if target_bytes < 1:
        raise SettingsError(f"target_bytes={target_bytes}: must be at least 1")
    paths = [partition_path(one) for one in partitions]
    options = own_options(options)
    give_up_dead_jobs(dest, options, storage_options)
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        table_id = definition_of(store, table).table_id
        plan = plan_compaction(store, table, table_id, paths, target_bytes)
    if not plan.bins:
        return None
    return report_table_job(
        dest,
        "compact",
        partial(_run, plan),
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=on_event,
        cancel=cancel,
    )


def _run(plan: Compaction, context: JobContext, on_result: OnResult) -> CommitResult | None:
    if plan.at_work:
        named = some_of([partition or "the table itself" for partition in plan.at_work])
        context.notice(f"{named}: was left as it is, because another job is at work there")
    return compact_table(context, plan, rewrite_bin, on_result=on_result)
