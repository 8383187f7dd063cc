"""Plan an abort: what it would delete, and what an undo of a commit would take back."""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.survey_jobs import survey_exactly
from ray_committer.jobs.open_job import OpenJob, StorageOptions, open_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.abort_job import refuse_decided
from ray_committer.stages.save_commit_record import refuse_foreign_paths
from ray_committer.stages.undo_job import refuse_alive, refuse_sealed
from ray_committer.tables.jobs_in_log import read_jobs_in_log

_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class AbortPlan:
    """The plan of an abort: it deletes `files` and `bytes` of a job attempt's tasks, and its manifests.

    moved: files that a recorded commit has moved and that would be taken back; None if an undo has begun
        and it is not known how many files are left for it.
    claim, partitions: the claim in the log of a table that would end; None if the job has none.
    """

    destination: str
    job_id: str
    job_attempt: int
    directory: str
    files: int
    bytes: int
    moved: int | None = 0
    claim: int | None = None
    partitions: tuple[str, ...] = ()


def plan_abort(
    dest: str,
    job_id: str | None = None,
    *,
    undo: bool = False,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> AbortPlan:
    """List what an abort would delete, without changing anything.

    `CommitRecordExistsError` if the abort would be refused, because the job's commit has begun; with
    `undo`, because old data may be gone. With `undo` also `CommitterBusyError`, while a process is at
    work on the commit.
    """
    with open_job(
        dest, job_id, executor="inline", options=options, storage_options=storage_options
    ) as found:
        context, job = found.context, found.context.job
        moved = _moved(found) if undo else 0
        if not undo:
            refuse_decided(context, found.state.phase)
        files = context.store.list_files(job.tasks)
        stamp = found.state.seen.state.stamp if found.state.seen else None
        logged = read_jobs_in_log(context.store, job.destination).of(job, stamp)
        return AbortPlan(
            destination=context.url,
            job_id=job.job_id,
            job_attempt=job.number,
            directory=job.directory,
            files=len(files),
            bytes=sum(file.size for file in files),
            moved=moved,
            claim=logged.claim if logged else None,
            partitions=logged.partitions if logged else (),
        )


def _moved(job: OpenJob) -> int | None:
    """The number of files to take back: files of the record that are not where a task wrote them."""
    context, seen = job.context, job.state.seen
    if seen is None or seen.phase in UNDECIDED or seen.phase is Phase.ABORTED:
        return 0
    refuse_sealed(context, seen.phase)
    record = load_commit_record(context.store, context.job, seen.state)
    refuse_foreign_paths(context, record, (*job.replaced_roots, *job.allowed_roots))
    if seen.phase is not Phase.RECORDED:
        return None
    refuse_alive(context)
    now, threads = context.now_milliseconds(), context.options.threads
    left = survey_exactly(context.store, context.job, now, threads=threads).left
    return None if left is None else record.files - left
