"""Look, before the record, whether directories have room for the files of the job, on a store that
bounds how many names one may hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from ray_committer.errors import PreflightError
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ManifestRef, ReplacedFile
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import entries
from ray_committer.stages.obstacles import some_of
from ray_committer.stages.worker import Worker


def most_held(context: JobContext, manifests: Sequence[ManifestRef]) -> int | None:
    """How many names a directory may hold if all files of the job are to fit in it, too; None if any
    number."""
    limit = context.store.capabilities.max_directory_items
    return None if limit is None else limit - sum(ref.files for ref in manifests)


def check_items(
    context: JobContext,
    manifests: Sequence[ManifestRef],
    held: Mapping[str, int],
    old: Sequence[ReplacedFile],
    namesakes: frozenset[str],
) -> list[PreflightError]:
    """The error, if any, that names the directories that would hold too many names.

    What they hold is said by `held` or, of what is replaced, by the `old` files, which go last; of these
    the job writes the `namesakes` again. More than the limit shows that the store has another one.
    """
    most, limit = most_held(context, manifests), context.store.capabilities.max_directory_items
    if most is None or limit is None:
        return []
    all_held = Counter(parent(file.path) for file in old) | Counter(held)
    crowded = {path: items for path, items in all_held.items() if most < items <= limit}
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
    text = (
        f"{named}, but the store allows {limit} in a directory; nothing was changed: abort the job, and "
        f"write fewer files or to more directories; if the store allows more, say so in its options"
    )
    return [PreflightError(text)]


def _added_by_batch(
    worker: Worker,
    refs: tuple[ManifestRef, ...],
    *,
    directories: frozenset[str],
    namesakes: frozenset[str],
) -> Counter[str]:
    """Work: how many new names the files of some manifests are, in some directories."""
    added: Counter[str] = Counter()
    for ref in refs:
        loaded = entries(worker.recorded(ref).manifest, worker.store.spec)
        above = (parent(entry.dest) for entry in loaded if entry.dest not in namesakes)
        added.update(path for path in above if path in directories)
    return added
