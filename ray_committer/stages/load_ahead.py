"""Load the manifests of exactly the tasks whose results the driver has: most are loaded already.

Manifests that came with the results of tasks, or were read while other tasks ran, are not read again.
Workers read the others by name. The preflight compares each with the result of its task (R1); after the
freeze, a listing shows whether these are all, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ray_committer.options import CommittedTask
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_manifests import Listed, named_listing
from ray_committer.stages.load_batch import LoadedBatch, load_named
from ray_committer.stages.load_manifests import Collected, LoadedManifests, load_batches, ready
from ray_committer.work.load_ahead import Chunk, LoadAhead


def load_ahead(
    context: JobContext,
    ahead: LoadAhead,
    tasks: Sequence[CommittedTask],
    roots: tuple[str, ...],
) -> LoadedManifests:
    """Load the manifests of `tasks`, beside what is loaded `ahead`. `roots` are the directories that the
    job can write to. Errors, and what follows after `CoordinatorLostError`, as `load_manifests`."""
    chunks, unknown = ahead.of(context, tasks, roots)
    collected = Collected.of(context)
    for number, chunk in enumerate(chunks):
        collected.add(_batch(context, -1 - number, chunk))
    named = [Listed(name, 0) for name in sorted(task.manifest for task in unknown)]
    load = partial(load_named, roots=roots, stamp=ahead.stamp)
    load_batches(context, named, load, collected)
    # The sources are looked at later, beside other requests.
    listing = named_listing(collected.manifests)
    return ready(context, collected.loaded(listing))


def _batch(context: JobContext, number: int, chunk: Chunk) -> LoadedBatch:
    """What was loaded ahead, as a worker returns what it has loaded; the coordinator gets it."""
    destination = context.job.destination
    paths = [path for path in chunk.directories if path != destination]
    context.executor.directories.collect(number, paths, bytes(chunk.marks))
    return LoadedBatch(
        number,
        tuple(chunk.refs),
        chunk.packs,
        chunk.rest,
        statistics=chunk.statistics.statistics,
        passed_over=chunk.passed_over,
        fills_destination=destination in chunk.directories,
    )
