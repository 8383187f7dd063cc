"""Read the commit record that a job's state names, and check it."""

from __future__ import annotations

from ray_committer.errors import CommitStateUnknownError, ManifestError, RecordGoneError, mark
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import CommitRecord, decode_record
from ray_committer.protocol.state import JobState
from ray_committer.stores.base import StoreOperations


def load_commit_record(store: StoreOperations, job: JobAttempt, state: JobState) -> CommitRecord:
    """Read the record that a state names; `RecordGoneError` if it is not there.
    `CommitStateUnknownError` if it belongs to another job, or is not a valid record."""
    path = job.content(state.record or "")
    try:
        record = decode_record(store.read(path), path)
    except FileNotFoundError as e:
        raise record_gone(job, state) from e
    except ManifestError as e:
        raise CommitStateUnknownError(*e.args) from e
    # A planted or copied record must not decide where this job's files go, or what is deleted.
    if (record.job_id, record.job_attempt, record.nonce) != (job.job_id, job.number, state.record):
        raise CommitStateUnknownError(
            f"{mark(path)}: is the record of attempt {record.job_attempt} of job {record.job_id}, not "
            f"of attempt {job.number} of job {job.job_id}",
            "nothing was done: find out who put it there",
        )
    return record


def record_gone(job: JobAttempt, state: JobState) -> RecordGoneError:
    """The error for a job whose record is gone although its state names it."""
    return RecordGoneError(
        f"{mark(job.content(state.record or ''))}: the commit record of job {job.job_id} is gone, and "
        "only it names the job's files",
        f"restore it from soft delete or a snapshot, and run the same command. "
        f"If it is lost for good, move {mark(job.directory)} out of {mark(job.temporary)}, so that "
        "other jobs can go on: files that were moved are in place, and the rest is in that directory",
    )
