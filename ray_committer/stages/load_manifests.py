"""Load the task manifests: workers parse and check them, and write their entries to packs.

The driver keeps a few numbers per manifest, and one pack that is not full. The coordinator gets the
directories, and the fingerprints of the destinations. Source: Hadoop LoadManifestsStage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import structs

from ray_committer.errors import (
    IncompleteJobError,
    ManifestReplacedError,
    MissingManifestsError,
    RayCommitterError,
    mark,
)
from ray_committer.protocol.file_list import NO_FILES, FileSet
from ray_committer.protocol.iostatistics import IOStatistics, Totals
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.manifest_refs import ManifestRefs
from ray_committer.protocol.pack import Pack, pack_name
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.state import UNSTAMPED, new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_manifests import Listed, Listing, list_manifests
from ray_committer.stages.load_batch import Load, LoadedBatch, load_batch, load_listed
from ray_committer.stores.base import FileStatus
from ray_committer.work.batches import places_of_batches
from ray_committer.work.packs import PackWriter, save_pack

LOADS = 20
"""The number of attempts to load manifests that tasks keep changing during the load."""


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """What was loaded of a job: of its `tasks` O(tasks) values, and the packs of their entries.
    `manifests` are empty, and so is the `listing`, if a commit record named the packs."""

    tasks: int
    packs: tuple[Pack, ...]
    statistics: IOStatistics
    passed_over: PassedOver = PassedOver()  # noqa: RUF009 - frozen
    manifests: Collection[ManifestRef] = ()
    listing: Listing = field(default_factory=Listing)
    fills_destination: bool = False
    """Whether a file goes directly into the destination, and not into a directory below it."""
    source_errors: tuple[RayCommitterError, ...] = ()
    """What is wrong with the files of the tasks; a job with such files is not recorded."""
    new_files: FileSet = NO_FILES
    """The files of the job as the log of a table names them, once they are listed for it."""

    @property
    def files(self) -> int:
        return sum(pack.files for pack in self.packs)


class ManifestsChangedError(Exception):
    """The manifests have changed since they were listed or loaded: load them again."""


def load_manifests(
    context: JobContext,
    roots: tuple[str, ...],
    *,
    stamp: str = UNSTAMPED,
    changes_nothing: bool = False,
    statuses: Iterable[FileStatus] | None = None,
) -> LoadedManifests:
    """Load the listed manifests of an open job. `roots` are the directories that the job with this
    `stamp` can write to. Full packs are saved, unless it `changes_nothing`. `statuses` are the listing,
    if there is one. `ManifestError` names a bad manifest, `MissingManifestsError` one that is gone,
    perhaps since they are now frozen. After `CoordinatorLostError`, everything must be loaded again."""
    listing, wanted = list_manifests(context, statuses)
    collected = Collected.of(context, saves=not changes_nothing)
    return load_listing(context, listing, wanted, collected, roots, stamp=stamp)


def load_listing(
    context: JobContext,
    listing: Listing,
    wanted: Sequence[Listed],
    collected: Collected,
    roots: tuple[str, ...],
    *,
    stamp: str,
) -> LoadedManifests:
    """Load `wanted` manifests of a listing, beside what is `collected`; errors as `load_manifests`."""
    directory = context.job.frozen if listing.is_frozen else context.job.manifests
    load = partial(load_listed, directory=directory, roots=roots, stamp=stamp)
    load_batches(context, wanted, load, collected)
    return collected.loaded(context, listing)


def load_batches(
    context: JobContext, wanted: Sequence[Listed], load: Load, collected: Collected
) -> None:
    """Load the `wanted` manifests, and add them to what is `collected`."""
    directories, saves = context.executor.directories, collected.writer.saves
    work = partial(load_batch, directories=directories, load=load, saves=saves)
    # Batches leave `waiting` as they come back: a lost one is named.
    waiting = dict(enumerate(places_of_batches(context.executor, len(wanted))))
    numbered = ((number, tuple(wanted[waiting[number]])) for number in range(len(waiting)))
    for batch in context.executor.run(work, context.until_cancelled(numbered)):
        context.journal.add(batch.requests)
        refs = _joined(context, wanted[waiting.pop(batch.number)], batch.refs)
        collected.add(replace(batch, refs=refs))
    context.check_cancelled()
    if waiting:
        number = sum(map(len, collected.refs.values()))
        lost = sum(place.stop - place.start for place in waiting.values())
        raise _not_all(context, number + lost, number)


@dataclass(slots=True)
class Collected:
    """What was loaded so far: the entries are in packs, or go to the one that `writer` fills."""

    writer: PackWriter
    refs: dict[int, ManifestRefs] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    passed_over: PassedOver = field(default_factory=PassedOver)
    fills_destination: bool = False

    @staticmethod
    def of(context: JobContext, *, saves: bool = True) -> Collected:
        """Nothing yet."""
        return Collected(PackWriter(context.store, context.job, saves=saves))

    def add(self, batch: LoadedBatch) -> None:
        """Add the result for a batch."""
        self.refs[batch.number] = ManifestRefs(batch.refs)
        self.writer.packs += batch.packs
        self.writer.join(batch.rest)
        self.totals.add(batch.statistics)
        self.passed_over = self.passed_over.plus(batch.passed_over)
        self.fills_destination |= batch.fills_destination

    def keep(
        self,
        before: LoadedManifests,
        packs: Sequence[Pack],
        manifests: ManifestRefs,
        *,
        fills_destination: bool,
    ) -> None:
        """Keep what was loaded `before` of some manifests, whose entries are in `packs`: of what was
        replaced since, nothing is kept."""
        self.refs[-1] = manifests
        self.writer.packs += packs
        self.fills_destination = fills_destination
        if len(manifests) == len(before.manifests):
            self.totals.add(before.statistics)
            self.passed_over = before.passed_over
            return
        for ref in manifests:
            self.totals.add(ref.statistics.statistics)
            if ref.passed_over.number:
                self.passed_over = self.passed_over.plus(ref.passed_over)

    @property
    def manifests(self) -> ManifestRefs:
        return ManifestRefs.joined(self.refs[number] for number in sorted(self.refs))

    def loaded(self, context: JobContext, listing: Listing) -> LoadedManifests:
        """All of it, after the last batch, as workers need it: other processes read packs; this one has
        them in memory, and saves them beside the declaration."""
        manifests, rest = self.manifests, self.writer.rest()
        loaded = LoadedManifests(
            len(manifests),
            (*self.writer.packs, *([rest.pack()] if rest.data else [])),
            self.totals.statistics,
            self.passed_over,
            manifests,
            listing,
            self.fills_destination,
        )
        tell_of_passed_over(context, loaded.passed_over)
        is_read = self.writer.saves and context.executor.starts_workers
        return save_packs(context, loaded) if is_read else loaded


def name_packs(loaded: LoadedManifests) -> LoadedManifests:
    """Give names to the packs that are only in memory, under which they will be saved."""
    names = (pack.ref.name or pack_name(new_nonce(), pack.ref.digest) for pack in loaded.packs)
    packs = zip(loaded.packs, names, strict=True)
    named = (structs.replace(pack, ref=structs.replace(pack.ref, name=name)) for pack, name in packs)
    return replace(loaded, packs=tuple(named))


def save_packs(
    context: JobContext, loaded: LoadedManifests, named: LoadedManifests | None = None
) -> LoadedManifests:
    """Save the packs that are only in memory, where they stay as well, if possible under the names that
    they have in `named`; all are saved before the record that names them."""
    wanted = (loaded if named is None else named).packs
    packs = context.at_once(
        lambda pair: _saved(context, *pair), list(zip(loaded.packs, wanted, strict=True))
    )
    return replace(loaded, packs=tuple(packs))


def _saved(context: JobContext, pack: Pack, named: Pack) -> Pack:
    if pack.ref.name:
        return pack
    saved = save_pack(context.store, context.job, pack, named.ref.name)
    return saved if context.executor.starts_workers else structs.replace(pack, ref=saved.ref)


def tell_of_passed_over(context: JobContext, passed: PassedOver) -> None:
    """Give a notice of what tasks have left that is not committed."""
    if passed.number:
        context.notice_once(
            f"{mark(context.job.tasks)}: tasks left hidden names, or what is no regular file, which are "
            f"not data and are not committed: {passed}"
        )


def load_unchanged(context: JobContext, load: Callable[[], LoadedManifests]) -> LoadedManifests:
    """Return the result of `load` for an open job. `ManifestsChangedError` if a task has replaced a
    listed manifest, or if another committer has frozen the manifests."""
    try:
        return load()
    except ManifestReplacedError:
        raise ManifestsChangedError from None
    except MissingManifestsError:
        job, store = context.job, context.store
        if store.get_status(job.manifests) is not None or store.get_status(job.frozen) is None:
            raise
        raise ManifestsChangedError from None


def _joined(
    context: JobContext, wanted: Sequence[Listed], refs: Sequence[ManifestRef]
) -> tuple[ManifestRef, ...]:
    """The manifests of a batch, in the order of the `wanted` ones, with which they share names."""
    by_name = {ref.name: ref for ref in refs}
    if by_name.keys() != {entry.name for entry in wanted}:
        raise _not_all(context, len(wanted), len(refs))
    return tuple(
        structs.replace(by_name[entry.name], name=entry.name, mark=entry.mark) for entry in wanted
    )


def _not_all(context: JobContext, listed: int, loaded: int) -> MissingManifestsError:
    return MissingManifestsError(
        f"{mark(context.job.manifests)}: {listed} manifests are listed, {loaded} were loaded"
    )


def changed_too_often(context: JobContext) -> IncompleteJobError:
    """The error for manifests that have changed during each of `LOADS` loads."""
    return IncompleteJobError(
        f"{mark(context.job.manifests)}: tasks are still committing, so the manifests changed during "
        "every load",
        "commit the job after its tasks have ended",
    )
