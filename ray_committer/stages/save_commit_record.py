"""Write the commit record, and later turn it into the commit point: the two moments that decide.

Both are one atomic rename that never replaces. The commit point is the record under its second name,
so a crash leaves neither of them half done.
"""

from __future__ import annotations

from ray_committer.errors import CommitAbortedError, CommitStateUnknownError, CommitterBusyError
from ray_committer.protocol.record import CommitRecord, decode_record, encode_record
from ray_committer.stages.commands import abort_command
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import read_attempt_state, read_success
from ray_committer.stages.settle import settle


def load_commit_record(context: JobContext, *, committed: bool) -> CommitRecord:
    """Read the record, or the commit point if the job is `committed`."""
    path = context.job.commit_point if committed else context.job.commit_record
    return decode_record(context.store.read(path), path)


def refuse_aborted(context: JobContext, record: CommitRecord) -> None:
    """`CommitAbortedError` if somebody decided to abort this job."""
    if record.aborted:
        raise CommitAbortedError(
            f"{context.job.commit_record}: this job is being aborted; finish that with: "
            f"{abort_command(context.store.spec, context.job)}"
        )


def save_commit_record(context: JobContext, record: CommitRecord) -> CommitRecord:
    """Save `record` unless there is one; returns the record that stands.

    `CommitterBusyError` if another committer has recorded other manifests than these.
    """
    temporary = f"{context.job.commit_record}.{record.nonce}.tmp"
    context.store.write(temporary, encode_record(record))
    context.sync(temporary)
    try:
        settle(lambda: context.store.rename(temporary, context.job.commit_record))
    except OSError as e:
        standing = _standing_record(context, e)
        if standing.nonce != record.nonce:
            context.store.delete_file(temporary)
        if not record.aborted:
            refuse_aborted(context, standing)
        if standing.manifests != record.manifests and not record.aborted:
            raise CommitterBusyError(
                f"{context.job.commit_record}: another committer has recorded other manifests; "
                f"wait for it, then run the same command"
            ) from e
        return standing
    return record


def save_commit_point(context: JobContext, record: CommitRecord) -> None:
    """Declare the job committed; idempotent, whoever did it."""
    try:
        settle(lambda: context.store.rename(context.job.commit_record, context.job.commit_point))
    except OSError as e:
        state = read_attempt_state(context.store, context.job)
        if state.has_commit_point:
            return
        success = None if state.exists else read_success(context.store, context.job.destination)
        if success is not None and success.job_id == record.job_id:
            return
        raise CommitStateUnknownError(
            f"{context.job.commit_point}: could not be written ({e}); all files are in place, run "
            f"the same command to finish"
        ) from e


def _standing_record(context: JobContext, cause: OSError) -> CommitRecord:
    try:
        return load_commit_record(context, committed=False)
    except FileNotFoundError:
        raise CommitStateUnknownError(
            f"{context.job.commit_record}: could not be written ({cause}); nothing was moved, run "
            f"the same command again"
        ) from cause
