"""Write the commit record, bind it to the job by one change of state, and check what it names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.errors import (
    CommitAbortedError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    mark,
)
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.job_state import Seen, advance
from ray_committer.protocol.paths import JobAttempt, is_inside, is_name, is_within, parent
from ray_committer.protocol.record import CommitRecord, encode
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_paths import is_in_log
from ray_committer.stages.context import JobContext


def write_commit_record(context: JobContext, record: CommitRecord) -> None:
    """Write `record` beside the state of a declared job; it does not bind the job yet."""
    path = context.job.content(record.nonce)
    # Under the nonce of a state that does not exist yet: until then, no process reads this file.
    context.store.write(path, encode(record))
    context.sync(path, context.job.state)


def save_commit_record(context: JobContext, declared: Seen, record: CommitRecord) -> Seen:
    """Change a declared job to recorded, with `record`, which must be written already.
    `StateChangedError` if another process has withdrawn the declaration or aborted the job."""
    recorded = advance(context.store, context.job, declared, Phase.RECORDED, record.nonce)
    sync_state(context)
    return recorded


def sync_state(context: JobContext) -> None:
    """If the commit must be durable, force the job's state and the names that lead to it to disk."""
    context.sync(context.job.state, context.job.directory)


def refuse_foreign_paths(
    context: JobContext, record: CommitRecord, allowed_roots: Sequence[str], *, undo: bool = False
) -> None:
    """`CommitStateUnknownError` if a record names paths that this caller does not let the job change.
    The record was read from a directory in which others can also write. `allowed_roots` are the caller's
    directories besides the destination. The error names the command that allows them, also to `undo`."""
    path, roots = context.job.content(record.nonce), {context.job.destination, *allowed_roots}
    files = [*record.old_files, *([record.success] if record.success is not None else [])]
    old = {file.path: parent(file.path) for file in files}
    old |= {path: path for path in record.emptied}
    for named in (*old, *record.allowed_roots):
        # Also inside the destination: `_temporary` and the log of a table are of other jobs (R21).
        if not is_plain(named, context.job):
            raise CommitStateUnknownError(
                f"{mark(path)}: names {mark(named)}, which no job can change",
                "nothing was done: find out who wrote it",
            )
    outside = [root for root in record.allowed_roots if not is_within(root, roots)]
    # One is enough for the error: a record can name a million old files.
    known = roots.union(outside)
    outside += [above for file, above in old.items() if not is_within(file, known)][:1]
    if outside:
        to_end = partial(abort_command, undo=True) if undo else commit_command
        command = to_end(context.store, context.job, (*allowed_roots, *outside))
        raise CommitStateUnknownError(
            f"{mark(path)}: lets the job change {', '.join(map(mark, outside))}, which is not below the "
            "destination",
            f"nothing was done, and the commit is unchanged. If that directory belongs to the job, like "
            f"a partition with its own location, allow it: {command}",
        )


def is_plain(path: str, job: JobAttempt) -> bool:
    """Whether a path has no ``..`` or the like, and is no file of running jobs or of a table's log."""
    is_own = path == job.temporary or is_inside(path, job.temporary) or is_in_log(path)
    return path.startswith("/") and all(map(is_name, path.split("/")[1:])) and not is_own


def refuse_aborted(context: JobContext, phase: Phase) -> None:
    """`CommitAbortedError` if this job was aborted, `CommitRecordExistsError` if it is being undone."""
    if phase is Phase.UNDOING:
        raise CommitRecordExistsError(
            f"{mark(context.job.directory)}: the commit of this job is being undone",
            f"finish that with: {abort_command(context.store, context.job, undo=True)}",
        )
    if phase is Phase.ABORTED:
        raise CommitAbortedError(
            f"{mark(context.job.directory)}: this job is being aborted",
            f"finish that with: {abort_command(context.store, context.job)}",
        )
