"""End another job that is in the way and has stopped, as ``commit`` and ``abort`` do."""

from __future__ import annotations

import logging
from typing import Any

from ray_committer.events import CancelToken
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.job_files.job_state import StateChangedError, advance
from ray_committer.job_files.job_status import JobStatus
from ray_committer.jobs.open_job import StorageOptions, open_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stages import abort_job as abort_job_stage
from ray_committer.stages import commit_job as commit_job_stage
from ray_committer.stages import undo_job as undo_job_stage
from ray_committer.stages.other_jobs.end_others import End, EndJob
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import destination_url

_log = logging.getLogger(__name__)


def ending(
    spec: StoreSpec,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    *,
    executor: ExecutorName | CommitPool = "auto",
    cancel: CancelToken | None = None,
) -> EndJob:
    """Return what ends another job on the store of `spec` for a job with these `options`.

    The record of the other job can name no other places than its destination and the roots of this job.
    Nothing is done to a job that is not in the state that was seen: its id may have been set up again.
    """

    def end(rival: JobStatus, how: End) -> list[str]:
        _log.info("%s: %s this job first, because it has stopped", rival.job.directory, how)
        with open_job(
            destination_url(spec, rival.job.destination),
            rival.job.job_id,
            executor=executor if how is End.FINISH else "threads",
            options=_of_other(options, rival),
            storage_options=storage_options,
            cancel=cancel,
        ) as job:
            # Compared after the job was opened: between the look and the opening its committer may have
            # gone on, or its id may be another job's (D1).
            if job.state.seen != rival.seen:
                raise StateChangedError(job.state.seen, rival.seen)
            if how is End.ABORT:
                advance(job.context.store, rival.job, rival.known, Phase.ABORTED)
                abort_job_stage.abort_job(job.context)
            elif how is End.UNDO:
                undo_job_stage.undo_job(job.context, job.state, allowed_roots=job.allowed_roots)
            else:
                commit_job_stage.commit_job(job.context, job.state, allowed_roots=job.allowed_roots)
            return job.context.journal.notices

    return end


def _of_other(options: CommitOptions, rival: JobStatus) -> CommitOptions:
    """The options to end another job with: how to work from this job's, and no facts of this job."""
    return without_facts(
        options,
        job_attempt=rival.job.number,
        assume_complete=False,
        ignore_other_attempts=False,
        allowed_roots=(*options.replaced_roots, *options.allowed_roots),
        keep_replaced=None,
        known_jobs=(),
        conflict_wait_seconds=0.0,
    )


def without_facts(options: CommitOptions, **changes: Any) -> CommitOptions:
    """The options without what is true of one job alone, and with `changes`."""
    return options.changed(
        expected_tasks=None,
        committed_tasks=None,
        mode=ConflictMode.APPEND,
        replaced_roots=(),
        reads=(),
        table_work=None,
        run_id=None,
        partition_paths=(),
        **changes,
    )
