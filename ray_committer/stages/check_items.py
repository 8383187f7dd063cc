"""Check, before the record, that directories have room for the files of the job, on a store that limits
the number of names in a directory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from ray_committer.errors import PreflightError, some_of
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ManifestRef, ReplacedFile
from ray_committer.stages.context import JobContext
from ray_committer.work.batches import batches
from ray_committer.work.entries import entries
from ray_committer.work.worker import Worker


def most_held(context: JobContext, manifests: Sequence[ManifestRef]) -> int | None:
    """How many names a directory can hold so that all files of the job also fit; None if there is no
    limit."""
    limit = context.store.capabilities.max_directory_items
    return None if limit is None else limit - sum(ref.files for ref in manifests)


def check_items(
    context: JobContext,
    manifests: Sequence[ManifestRef],
    directories: Sequence[str],
    held: Mapping[str, int],
    old: Sequence[ReplacedFile],
    namesakes: frozenset[str],
) -> list[PreflightError]:
    """The error, if any, that names the directories that would hold too many names.

    `directories` are those that the job writes to, and `held` has the numbers of names in some of them.
    For directories that are replaced, the `old` files count, since they are removed last; the job writes
    the `namesakes` among them again. A directory that holds more than the limit shows that the store has
    another limit.
    """
    most, limit = most_held(context, manifests), context.store.capabilities.max_directory_items
    if most is None or limit is None:
        return []
    all_held = Counter(parent(file.path) for file in old) | Counter(held)
    crowded = {path: all_held[path] for path in directories if most < all_held[path] <= limit}
    if not crowded:
        return []
    work = partial(_added_by_batch, directories=frozenset(crowded), namesakes=namesakes)
    added: Counter[str] = Counter()
    for counted in context.executor.run(work, batches(context.executor, manifests)):
        added.update(counted)
    full = [path for path in sorted(crowded) if crowded[path] + added[path] > limit]
    if not full:
        return []
    named = some_of(
        [f"{path}: holds {crowded[path]} names and gets {added[path]} more" for path in full]
    )
    error = PreflightError(
        f"{named}, but the store allows {limit} in a directory",
        "nothing was changed: abort the job, and write fewer files, or to more directories; if the "
        "store allows more, set that limit in its storage options",
    )
    return [error]


def _added_by_batch(
    worker: Worker,
    refs: tuple[ManifestRef, ...],
    *,
    directories: frozenset[str],
    namesakes: frozenset[str],
) -> Counter[str]:
    """Work: count the new names that the files of some manifests add to these `directories`."""
    added: Counter[str] = Counter()
    for ref in refs:
        loaded = entries(worker.recorded(ref).manifest, worker.store.spec)
        above = (parent(entry.dest) for entry in loaded if entry.dest not in namesakes)
        added.update(path for path in above if path in directories)
    return added
