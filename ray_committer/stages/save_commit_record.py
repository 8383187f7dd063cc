"""Write the commit record, and later turn it into the commit point: the two moments that decide.

Both are one atomic rename that never replaces. The commit point is the record under its second name,
so a crash leaves neither of them half done.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import CommitAbortedError, CommitStateUnknownError, CommitterBusyError
from ray_committer.protocol.paths import JobAttempt, is_inside, is_name, parent
from ray_committer.protocol.record import CommitRecord, decode_record, encode_record
from ray_committer.stages.commands import abort_command, commit_command
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import read_attempt_state, read_success
from ray_committer.stages.settle import settle


def load_commit_record(context: JobContext, *, committed: bool) -> CommitRecord:
    """Read the record, or the commit point if the job is `committed`."""
    job = context.job
    path = job.commit_point if committed else job.commit_record
    record = decode_record(context.store.read(path), path)
    if (record.job_id, record.job_attempt) != (job.job_id, job.number):
        raise CommitStateUnknownError(
            f"{path}: is the record of attempt {record.job_attempt} of job {record.job_id}, not of "
            f"attempt {job.number} of job {job.job_id}; nothing was done. Find out who put it there"
        )
    return record


def refuse_foreign_paths(
    context: JobContext, record: CommitRecord, allowed_roots: Sequence[str]
) -> None:
    """`CommitStateUnknownError` if a record leads out of what this caller lets the job change.

    It was read from a directory in which others may write, too. `allowed_roots` are those that the
    caller gives beside the destination.
    """
    path, roots = context.job.commit_record, (context.job.destination, *allowed_roots)
    old = [file.path for file in (*record.replaced, *record.overwritten)]
    for one in (*old, *record.allowed_roots):
        if not _is_plain(one, context.job):
            raise CommitStateUnknownError(
                f"{path}: names {one}, which no job may change; nothing was done. Find out who wrote it"
            )
    outside = [root for root in record.allowed_roots if not _is_within(root, roots)]
    outside += [parent(one) for one in old if not _is_within(one, (*roots, *outside))][:1]
    if outside:
        command = commit_command(context.store.spec, context.job, (*allowed_roots, *outside))
        raise CommitStateUnknownError(
            f"{path}: says that the job may change {', '.join(outside)}, which is not below the "
            f"destination; nothing was done, and the commit is as it was. If that is the job's, as a "
            f"partition with a location of its own is, allow it: {command}"
        )


def _is_plain(path: str, job: JobAttempt) -> bool:
    """Whether a path leads nowhere else than it says, and not to what belongs to running jobs."""
    is_own = path == job.temporary or is_inside(path, job.temporary)
    return path.startswith("/") and all(map(is_name, path.split("/")[1:])) and not is_own


def _is_within(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or is_inside(path, root) for root in roots)


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
