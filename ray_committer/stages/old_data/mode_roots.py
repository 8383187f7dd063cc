"""The directories whose old data a job replaces, and those in which it wants none, by its conflict mode.

The partitions of a job are the directories of its files. Source: Hadoop PartitionedStagingCommitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ray_committer.errors import PreflightError, mark
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import ancestors, is_inside, is_within, parent
from ray_committer.protocol.record import Claim, ConflictMode
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.work.worker import Worker

MOST_WRITES = 100
"""The most directories that a declaration names; if there are more, it names the destination."""


@dataclass(frozen=True, slots=True)
class ModeRoots:
    """The directories whose old files are `replaced`, and those that must be `empty`."""

    replaced: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def roots_of_mode(
    context: JobContext, loaded: LoadedManifests, replaced_roots: tuple[str, ...]
) -> ModeRoots:
    """The directories that the job's mode means; with OVERWRITE, the `replaced_roots` if there are any.
    The partition modes read all packs. `PreflightError` if a file of the job is in no partition, since
    the whole destination would be replaced."""
    destination = context.job.destination
    match context.options.mode:
        case ConflictMode.APPEND:
            return ModeRoots()
        case ConflictMode.ERROR:
            return ModeRoots(empty=(destination,))
        case ConflictMode.OVERWRITE:
            return ModeRoots(replaced_roots or (destination,))
        case ConflictMode.ERROR_PARTITIONS:
            return ModeRoots(empty=_find_partitions(context, loaded.packs))
        case ConflictMode.OVERWRITE_PARTITIONS:
            return ModeRoots(_find_partitions(context, loaded.packs))


def _find_partitions(context: JobContext, packs: Sequence[Pack]) -> tuple[str, ...]:
    return tuple(sorted(set[str]().union(*context.run(_partitions_of, packs))))


def _partitions_of(worker: Worker, pack: Pack) -> set[str]:
    destination, partitions = worker.job.destination, set[str]()
    for entry in worker.packs.entries(pack):
        directory = parent(entry.dest)
        if directory == destination or is_inside(destination, directory):
            raise PreflightError(
                f"{mark(entry.dest)}: is in no partition, but the mode is one for partitions",
                "nothing was changed: commit the job with another mode, or abort it and let its tasks "
                "write to partitions",
            )
        partitions.add(directory)
    return partitions


def claim_of(
    context: JobContext, loaded: LoadedManifests, roots: ModeRoots, allowed_roots: Sequence[str]
) -> Claim:
    """The directories that a job writes, and the `roots` among them, which exclude other writers."""
    destination = context.job.destination
    excludes = (*roots.replaced, *roots.empty)
    writes = set(excludes)
    directories = context.executor.directories
    if context.options.mode.is_of_partitions:  # the other directories are empty, or above a partition
        above = {path for root in excludes for path in ancestors(root, destination)}
        writes.update(set(directories.share(0, 1)) - above)
    elif directories.plan() > MOST_WRITES:
        writes.update((destination, *allowed_roots))
    else:
        writes.update(directories.share(0, 1))
        writes.update((destination,) if loaded.fills_destination else ())
    real = context.store.real_path  # other jobs can reach a directory by another name
    writes, excludes = set(map(real, writes)), tuple(set(map(real, excludes)))
    outermost = [path for path in writes if path == "/" or not is_within(parent(path), writes)]
    return Claim(sorted(outermost), sorted(excludes))
