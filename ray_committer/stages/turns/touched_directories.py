"""Name the directories in which a job adds or removes files, for a catalog that knows partitions."""

from __future__ import annotations

from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import ancestors, is_inside, parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.turns.list_new_files import relative


def touched_directories(context: JobContext, record: CommitRecord) -> list[str]:
    """The directories below the destination that the job of `record` writes to, or removes files from,
    relative to it and in order; not those that only contain others.

    The job must be loaded: errors as the coordinator's. The destination is not among them, since
    its files are in no partition.
    """
    destination = context.job.destination
    old = {parent(file.path) for file in (*record.replaced, *record.overwritten)}
    written = {*context.executor.directories.share(0, 1)}
    written -= {above for path in written for above in ancestors(path, destination)}  # of the tasks
    inside = (path for path in {*old, *written, *record.emptied} if is_inside(path, destination))
    names = (relative(destination, path) for path in inside)
    return sorted(name for name in names if not is_hidden(name))
