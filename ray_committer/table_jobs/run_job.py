"""Run a job that this package makes from the log of a table, and report it as any other commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from ray_committer.errors import PathError
from ray_committer.events import CancelToken, EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.end_job import ending
from ray_committer.jobs.open_job import StorageOptions, attempt_context, open_here, open_new_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import SUCCESS, TEMPORARY
from ray_committer.protocol.record import ConflictMode
from ray_committer.report.command import repeat_command
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.recording import Recording
from ray_committer.report.run_facts import run_facts
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.commit_result import CommitResult
from ray_committer.stages.context import JobContext
from ray_committer.table_jobs.table_job import dead_table_jobs

OnResult = Callable[[CommitResult], None]


def report_table_job(
    dest: str,
    kind: str,
    run: Callable[[JobContext, OnResult], object],
    *,
    executor: ExecutorName | CommitPool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
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
            command = repeat_command(result, context.options)
            given = sorted(context.store.spec.storage_options)
            facts = run_facts(context, result)
            reports.append(recording.report(result, facts=facts, command=command, storage_options=given))

        end = ending(context.store.spec, options, storage_options, executor=executor, cancel=cancel)
        run(replace(context, end_other=end), report)
    return reports[0]


def give_up_dead_jobs(dest: str, options: CommitOptions, storage_options: StorageOptions | None) -> None:
    """Remove what processes have left that died before their job of this kind was recorded."""
    with open_here(dest, options, storage_options) as (store, destination):
        for job in dead_table_jobs(store, destination):
            context = attempt_context(store, job, options)
            try:
                abort_job(context)
            finally:
                context.executor.close()


def own_options(options: CommitOptions) -> CommitOptions:
    """The options without the facts of another job."""
    return options.changed(
        job_attempt=0,
        expected_tasks=None,
        committed_tasks=None,
        mode=ConflictMode.APPEND,
        replaced_roots=(),
        allowed_roots=(),
        reads=(),
        table_work=None,
        run_id=None,
        partition_paths=(),
    )


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
