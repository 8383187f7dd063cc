"""Load manifests of which most are loaded already: only the others are read.

If a job was loaded before, these are the new and the replaced ones; each counts as it was listed before
it was read. A pack with entries of a manifest that was replaced, or is gone, is written again without
them. If the driver has the results of tasks, most were loaded while other tasks ran: the preflight
compares each with the result of its task (R1), and a listing after the freeze, whether these are all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.options import CommittedTask
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.manifest_refs import ManifestRefs
from ray_committer.protocol.pack import Entry, Pack
from ray_committer.protocol.paths import ancestors, parent
from ray_committer.protocol.staging import token_of
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_manifests import Listed, list_manifests, named_listing
from ray_committer.stages.load_batch import hand_over, load_named
from ray_committer.stages.load_manifests import (
    Collected,
    LoadedManifests,
    load_batches,
    load_listing,
    load_manifests,
)
from ray_committer.stages.load_packs import collect_packs
from ray_committer.stores.base import FileStatus
from ray_committer.work.entries import is_of_attempts
from ray_committer.work.load_ahead import LoadAhead
from ray_committer.work.packs import PackWriter
from ray_committer.work.worker import Worker


def load_ahead(
    context: JobContext, ahead: LoadAhead, tasks: Sequence[CommittedTask], roots: tuple[str, ...]
) -> LoadedManifests:
    """Load the manifests of exactly these `tasks`, beside what is loaded `ahead`; `roots` and errors as
    `load_manifests`."""
    chunks, unknown = ahead.of(context, tasks, roots)
    collected = Collected.of(context)
    for number, chunk in enumerate(chunks):
        collected.add(hand_over(context.job, -1 - number, chunk, context.executor.directories))
    named = [Listed(name, 0) for name in sorted(task.manifest for task in unknown)]
    load = partial(load_named, roots=roots, stamp=ahead.stamp)
    load_batches(context, named, load, collected)
    # The sources are looked at later, beside other requests.
    return collected.loaded(context, named_listing(collected.manifests))


def load_again(
    context: JobContext,
    before: LoadedManifests,
    roots: tuple[str, ...],
    *,
    stamp: str,
    statuses: Iterable[FileStatus] | None = None,
) -> LoadedManifests:
    """Load the listed manifests of an open job, of which some were loaded `before`, with the same
    `roots` and `stamp`. `statuses` and errors as `load_manifests`."""
    listing, wanted = list_manifests(context, statuses)
    marks = {item.name: item.mark for item in wanted}
    kept = ManifestRefs(ref for ref in before.manifests if marks.get(ref.name) == ref.mark)
    gone = [ref for ref in before.manifests if marks.get(ref.name) != ref.mark]
    packs = _packs_without(context, before.packs, gone) if gone else before.packs
    if packs is None or not kept:
        return load_manifests(context, roots, stamp=stamp)
    names = {ref.name for ref in kept}
    collected = Collected.of(context)
    collected.keep(before, packs, kept, fills_destination=collect_packs(context, packs, roots))
    changed = [item for item in wanted if item.name not in names]
    return load_listing(context, listing, changed, collected, roots, stamp=stamp)


def _packs_without(
    context: JobContext, packs: Sequence[Pack], gone: Sequence[ManifestRef]
) -> tuple[Pack, ...] | None:
    """The `packs` without the entries of manifests that are `gone`; None if it is not clear which."""
    ids = frozenset(ref.task_attempt_id or "" for ref in gone)
    if not all(ref.files and ref.task_attempt_directory is None for ref in gone) or "" in ids:
        return None
    tokens = frozenset(filter(None, map(token_of, ids)))
    work = partial(_without, ids=ids, tokens=tokens)
    rest = {part.number: part for part in context.run(work, enumerate(packs))}
    # All that an attempt could have written is left out. It is what these manifests named if it is as
    # much: an attempt with two manifests would have more.
    left_out = sum(part.left_out for part in rest.values())
    is_clear = len(rest) == len(packs) and all(part.is_clear for part in rest.values())
    if not is_clear or left_out != sum(ref.files for ref in gone):
        return None
    written = (rest[number].pack or pack for number, pack in enumerate(packs))
    return tuple(pack for pack in written if pack.files)


@dataclass(frozen=True, slots=True)
class _Rest:
    """What stays of the pack with this `number`: all, or another `pack`. It `is_clear` if no directory
    is left of which it is not known whose it is."""

    number: int
    left_out: int = 0
    pack: Pack | None = None
    is_clear: bool = True


def _without(
    worker: Worker, numbered: tuple[int, Pack], *, ids: frozenset[str], tokens: frozenset[str]
) -> _Rest:
    """Work: leave out the entries of some task attempts, which have these `ids` and `tokens`."""
    number, pack = numbered
    entries = list(worker.packs.entries(pack))
    tasks = worker.job.tasks
    kept = [entry for entry in entries if not is_of_attempts(entry, tasks, ids, tokens)]
    if len(kept) == len(entries):
        return _Rest(number)
    # A directory without a file of its own in a section is above a file of its task, or was empty.
    alone = {path for section in worker.packs.sections(pack) for path in section.alone}
    writer = PackWriter(worker.store, worker.job, saves=False)
    writer.add(kept, sorted(alone & _above(kept)))
    left_out, is_clear = len(entries) - len(kept), alone <= _above(entries)
    return _Rest(number, left_out, writer.rest().pack(), is_clear)


def _above(entries: Iterable[Entry]) -> set[str]:
    """The directories of some files, and all above them."""
    nearest = {parent(entry.dest) for entry in entries}
    return nearest.union(*(ancestors(path, "/") for path in nearest))
