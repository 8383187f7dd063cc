"""Plan an abort: what it would delete, and what an undo of a commit would take back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ray_committer.job_files.abort_uploads import Upload, job_uploads
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.others import goes_on
from ray_committer.job_files.spark_uploads import find_spark_uploads
from ray_committer.jobs.abort_report import AbortReport, report_abort
from ray_committer.jobs.open_job import OpenJob, StorageOptions, open_job
from ray_committer.jobs.survey_jobs import survey_exactly
from ray_committer.options import CommitOptions
from ray_committer.places.base import tasks_of
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.abort_job import is_nothing, may_be_left, refuse_decided
from ray_committer.stages.save_commit_record import refuse_foreign_paths
from ray_committer.stages.undo_job import refuse_alive, refuse_committed_state, refuse_sealed
from ray_committer.stores.registry import shown_url
from ray_committer.stores.uploads import pending_uploads
from ray_committer.tables.jobs_in_log import read_jobs_in_log


def plan_abort(
    dest: str,
    job_id: str | None = None,
    *,
    undo: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> AbortReport:
    """List what an abort would delete, without changing anything.

    `CommitRecordExistsError` if the abort would be refused, because the job's commit has begun; with
    `undo`, because old data may be gone. With `undo` also `CommitterBusyError`, while a process is at
    work on the commit. A job that Hadoop's S3A committer left is refused with `SettingsError`.
    """
    with open_job(
        dest,
        job_id,
        executor="inline",
        options=options,
        storage_options=storage_options,
        is_dry_run=True,
    ) as opened:
        context, job = opened.context, opened.context.job
        moved = _moved(opened) if undo else 0
        if not undo:
            refuse_decided(context, opened.state.phase)
        if is_nothing(opened.state) and not may_be_left(context, opened.state):
            return report_abort(context, was_recorded=False)
        uploads = context.output.count_uploads(partial(_uploads, opened))
        places = tasks_of(context.store, job) if uploads is None else []
        files = [file for place in places for file in context.store.list_files(place.tasks)]
        stamp = opened.state.seen.state.stamp if opened.state.seen else None
        logged = read_jobs_in_log(context.store, job.destination).of(job, stamp)
        return replace(
            report_abort(context, was_recorded=False),
            directory=shown_url(context.store.spec, job.directory),
            files=len(files) if uploads is None else None,
            bytes=sum(file.size for file in files) if uploads is None else None,
            uploads=uploads,
            moved=moved,
            claim=logged.claim if logged else None,
            partitions=logged.partitions if logged else (),
        )


def _uploads(opened: OpenJob) -> int:
    """The number of uploads to abort: the job's own that are pending below its roots."""
    store, job = opened.context.store, opened.context.job
    pending: set[Upload] = set()
    for root in {job.destination, *opened.replaced_roots, *opened.allowed_roots}:
        pending.update((upload.path, upload.id) for upload in pending_uploads(store, root))
    return len(pending.intersection(_own_uploads(opened)))


def _own_uploads(opened: OpenJob) -> Iterator[Upload]:
    store, job = opened.context.store, opened.context.job
    yield from job_uploads(store, job, skips_damaged=True)
    # Spark puts the id of the job into a name, and no attempt: another one that goes on can own it.
    if not goes_on(store, job):
        yield from find_spark_uploads(store, job)[0]


def _moved(job: OpenJob) -> int | None:
    """The number of files to take back: files of the record that are not where a task wrote them."""
    context, current = job.context, job.state.seen
    if current is None or current.phase in UNDECIDED or current.phase is Phase.ABORTED:
        return 0
    refuse_committed_state(context, current.phase)
    record = load_commit_record(context.store, context.job, current.state)
    refuse_foreign_paths(context, record, (*job.replaced_roots, *job.allowed_roots), undo=True)
    refuse_sealed(context, current.phase, record)
    if current.phase is Phase.UNDOING:
        return None
    refuse_alive(context)
    now, threads = context.now_milliseconds(), context.options.threads
    left = survey_exactly(context.store, context.job, now, threads=threads).left
    return None if left is None else record.files - left
