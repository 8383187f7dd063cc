"""Load the packs that a commit record names: what they name is checked, and no manifest is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.protocol.fingerprints import fingerprints
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, tell_of_passed_over
from ray_committer.work.check_pack import check_pack
from ray_committer.work.worker import Worker


def load_packs(context: JobContext, record: CommitRecord, roots: tuple[str, ...]) -> LoadedManifests:
    """Load exactly what the record names. `roots` are the directories that the job can write to.
    `PackChangedError` if a pack is gone, or is another; `PreflightError` if it names what is not the
    job's. After `CoordinatorLostError`, everything must be loaded again."""
    packs = tuple(map(Pack, record.packs))
    collect_packs(context, packs, roots)
    tell_of_passed_over(context, record.passed_over)
    return LoadedManifests(record.tasks, packs, record.statistics, record.passed_over)


def collect_packs(context: JobContext, packs: Sequence[Pack], roots: tuple[str, ...]) -> bool:
    """Tell the empty coordinator what packs name. Whether a file goes directly into the destination."""
    work = partial(
        _collect,
        directories=context.executor.directories,
        roots=roots,
        tasks=context.job.tasks,
    )
    return any([*context.run(work, enumerate(packs))])


def _collect(
    worker: Worker,
    numbered: tuple[int, Pack],
    *,
    directories: DirectoryCoordinator,
    roots: tuple[str, ...],
    tasks: str,
) -> bool:
    """Work: check a pack, and collect its directories and files; idempotent."""
    number, pack = numbered
    check_pack(worker, pack, roots, tasks)
    paths = {path for section in worker.packs.sections(pack) for path in section.directories}
    marks = fingerprints(entry.dest for entry in worker.packs.entries(pack))
    destination = worker.job.destination
    # Of manifests that are loaded beside the packs, the numbers of batches are not negative.
    directories.collect(-1 - number, list(paths - {destination}), marks)
    return destination in paths
