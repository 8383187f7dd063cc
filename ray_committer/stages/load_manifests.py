"""Load the task manifests: workers parse and check them, the driver keeps a few numbers per manifest.

The coordinator gets the directories, and the fingerprints of the destinations. Entries stay in the
process that read them. Source: Hadoop LoadManifestsStage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import accumulate, pairwise
from operator import attrgetter

import msgspec
from msgspec import structs

from ray_committer.errors import (
    IncompleteJobError,
    ManifestReplacedError,
    MissingManifestsError,
    mark,
)
from ray_committer.executors.base import ResultRef, Supplied
from ray_committer.executors.directories import Directories
from ray_committer.job_files.manifests import check_listed, list_manifest_files
from ray_committer.places.choose import places_of
from ray_committer.protocol.file_list import NO_FILES, FileSet
from ray_committer.protocol.iostatistics import IOStatistics, aggregate
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt, is_inside, join, parent
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.stages.context import JobContext
from ray_committer.stages.turns.list_new_files import NO_NEW_FILES, JoinedFiles, NewFiles, save_new_files
from ray_committer.stores.base import FileStatus
from ray_committer.work.batches import batches
from ray_committer.work.load_manifest import LoadedManifest, check_manifest, load_manifest
from ray_committer.work.sidecars import new_sidecar, save_sidecar
from ray_committer.work.sources import WrongSources, check_sources
from ray_committer.work.worker import Worker, gone

LOADS = 20
"""The number of attempts to load manifests that tasks keep changing during the load."""

PACKED_FILES = 10
"""Manifests of at most this many files are sent packed: another read costs a request for few files. All
manifests are sent if their sources are checked later."""

SMALL_MANIFESTS = 4 * 1024 * 1024
"""Up to this size of all manifests, about 15,000 files, one process can hold all entries at once."""

MANY_MANIFESTS = 10_000
"""From this number of manifests, a listing takes megabytes, and so does the record."""


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """All manifests of a job, O(tasks) values; ``packed[k]`` can hold those from ``starts[k]`` on.
    `listing` describes the listed manifests; it is empty if a commit record named the manifests."""

    manifests: tuple[ManifestRef, ...]
    statistics: IOStatistics
    starts: tuple[int, ...]
    packed: tuple[ResultRef | None, ...]
    listing: Listing
    fills_destination: bool = False
    """Whether a file goes directly into the destination, and not into a directory below it."""
    sources_are_checked: bool = True
    """False if there are few small manifests: their sources are checked later, beside other requests."""
    wrong_sources: tuple[WrongSources, ...] = ()
    """The checked sources that are missing or changed; a job with such sources is not recorded."""
    new_files: FileSet = NO_FILES
    """The files of the job as the log of a table names them, if they were listed for it."""

    @property
    def files(self) -> int:
        return sum(manifest.files for manifest in self.manifests)

    def batches(self) -> Iterator[Supplied[tuple[ManifestRef, ...]]]:
        """The manifests in the batches that were loaded, each with those that are packed."""
        for (low, high), packed in zip(pairwise((*self.starts, None)), self.packed, strict=True):
            yield Supplied(self.manifests[low:high], () if packed is None else (packed,))


@dataclass(frozen=True, slots=True)
class Listing:
    """The summary of a listing of manifests: a few bytes, and not some hundred bytes per manifest.
    `digest` is a sum over all manifests; it differs if any manifest differs. `is_frozen` if no manifest
    was in the directory where tasks save them."""

    digest: int = 0
    is_frozen: bool = True


class Listed(msgspec.Struct, frozen=True, gc=False):
    """A manifest in a listing: its file `name`, and its `size` in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """The result for one batch of manifests; `packs` if it has stored packed small manifests."""

    number: int
    refs: tuple[ManifestRef, ...]
    statistics: IOStatistics
    packs: bool
    fills_destination: bool
    wrong_sources: tuple[WrongSources, ...]
    new_files: NewFiles = NO_NEW_FILES
    passed_over: PassedOver = PassedOver()  # noqa: RUF009 - frozen


class ManifestsChangedError(Exception):
    """The manifests have changed since they were listed or loaded: load them again."""


Batch = tuple[int, tuple[Listed | ManifestRef, ...]]


def load_manifests(
    context: JobContext,
    record: CommitRecord | None,
    roots: tuple[str, ...],
    *,
    stamp: str = UNSTAMPED,
    changes_nothing: bool = False,
    statuses: Iterable[FileStatus] | None = None,
    for_table: bool = False,
) -> LoadedManifests:
    """Load the listed manifests or, if there is a commit record, exactly those that it names. `roots`
    are the directories that the job with this `stamp` can write to. Identities of files are saved,
    unless it `changes_nothing`. `statuses` are the listing, if there is one. `for_table`, the workers
    save lists of the job's files in the log. `ManifestError` names a bad manifest,
    `MissingManifestsError` one that is gone, perhaps since they are now frozen. After
    `CoordinatorLostError`, everything must be loaded again."""
    listing = Listing()
    wanted: Sequence[Listed | ManifestRef] = record.manifests if record else ()
    if record is None:
        listing, wanted = _list_manifests(context, statuses)
    is_small = sum(item.size for item in wanted) <= SMALL_MANIFESTS
    # With few files the sources are checked in the freeze, beside the declaration: one round of requests
    # less.
    can_wait = is_small and not changes_nothing and context.places.waits_in_freeze
    load = partial(
        _load,
        directory=context.job.frozen if listing.is_frozen else context.job.manifests,
        roots=roots,
        stamp=stamp,
        checks=not can_wait,
        changes_nothing=changes_nothing,
    )
    work = partial(_load_batch, directories=context.executor.directories, load=load, for_table=for_table)
    loaded: dict[int, LoadedBatch] = {}
    new_files = JoinedFiles(context)
    packed: dict[int, ResultRef] = {}
    # Batches leave `waiting` as they come back, so that a lost one is named, and memory holds each
    # manifest once.
    waiting = dict(enumerate(batches(context.executor, wanted)))
    del wanted  # of each manifest, memory holds what was listed or what was loaded
    numbered = ((number, waiting[number]) for number in range(len(waiting)))
    for batch, ref in context.executor.run_with_ref(work, context.until_cancelled(numbered)):
        refs = _joined(context, waiting.pop(batch.number), batch.refs)
        new_files.add(batch.new_files)
        loaded[batch.number] = replace(batch, refs=refs, new_files=NO_NEW_FILES)
        if batch.packs:
            packed[batch.number] = ref
    context.check_cancelled()
    numbers = sorted(loaded)
    manifests = tuple(ref for number in numbers for ref in loaded[number].refs)
    if waiting:
        missing = sum(map(len, waiting.values()))
        raise _not_all(context, len(manifests) + missing, len(manifests))
    statistics, passed_over = IOStatistics(), PassedOver()
    for batch in loaded.values():
        statistics = aggregate(statistics, batch.statistics)
        passed_over = passed_over.plus(batch.passed_over)
    _tell_of_passed_over(context, passed_over)
    starts = tuple(accumulate((0, *(len(loaded[number].refs) for number in numbers))))[:-1]
    packs = tuple(packed.get(number) for number in numbers)
    fills = any(batch.fills_destination for batch in loaded.values())
    wrong = tuple(group for number in numbers for group in loaded[number].wrong_sources)
    return LoadedManifests(
        manifests, statistics, starts, packs, listing, fills, not can_wait, wrong, new_files.file_set()
    )


def _tell_of_passed_over(context: JobContext, passed: PassedOver) -> None:
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
        if not _is_frozen_meanwhile(context):
            raise
        raise ManifestsChangedError from None


def _joined(
    context: JobContext, wanted: Sequence[Listed | ManifestRef], refs: Sequence[ManifestRef]
) -> tuple[ManifestRef, ...]:
    """The loaded manifests of a batch, which must be those `wanted`; they share names and sizes."""
    if [ref.name for ref in refs] != [entry.name for entry in wanted]:
        raise _not_all(context, len(wanted), len(refs))
    pairs = zip(refs, wanted, strict=True)
    return tuple(structs.replace(ref, name=entry.name, size=entry.size) for ref, entry in pairs)


def _not_all(context: JobContext, listed: int, loaded: int) -> MissingManifestsError:
    return MissingManifestsError(
        f"{mark(context.job.manifests)}: {listed} manifests are listed, {loaded} were loaded"
    )


def _is_frozen_meanwhile(context: JobContext) -> bool:
    job, store = context.job, context.store
    return store.get_status(job.manifests) is None and store.get_status(job.frozen) is not None


def changed_too_often(context: JobContext) -> IncompleteJobError:
    """The error for manifests that have changed during each of `LOADS` loads."""
    return IncompleteJobError(
        f"{mark(context.job.manifests)}: tasks are still committing, so the manifests changed during "
        "every load",
        "commit the job after its tasks have ended",
    )


def _list_manifests(
    context: JobContext, statuses: Iterable[FileStatus] | None
) -> tuple[Listing, list[Listed]]:
    """The job's manifests, sorted by path, in the directory where they are now. `statuses` are all files
    of that directory, if it was listed already."""
    try:
        files = list_manifest_files(context.store, context.job) if statuses is None else statuses
    except FileNotFoundError as e:
        raise MissingManifestsError(
            f"{mark(context.job.manifests)}: is gone, perhaps because another job's clean-up deleted "
            f"all of {mark(context.job.temporary)}"
        ) from e
    counted = list(counted_manifests(files, counted_names(context)))
    listing, listed = listing_of(context.job, counted), []
    del files
    while counted:  # memory holds each manifest once
        status = counted.pop()
        listed.append(Listed(status.name, status.size))
    return listing, sorted(listed, key=attrgetter("name"))


def counted_names(context: JobContext) -> frozenset[str] | None:
    """The names of the manifests that count, if the driver has named the attempts that do and allows
    others to be there; else None, and all manifests count."""
    options = context.options
    if options.committed_tasks is None or not options.ignore_other_attempts:
        return None
    return frozenset(task.manifest for task in options.committed_tasks)


def counted_manifests(
    statuses: Iterable[FileStatus], names: frozenset[str] | None
) -> Iterator[FileStatus]:
    """Select the manifests that count, by `names`, from `statuses`; each must be a file with content."""
    for status in statuses:
        if status.name.endswith(MANIFEST_SUFFIX) and (names is None or status.name in names):
            check_listed(status)
            yield status


def listing_of(job: JobAttempt, counted: Iterable[FileStatus]) -> Listing:
    """Summarise listed manifests, which can be in any order."""
    total, is_frozen = 0, True
    for status in counted:
        stamp = (
            status.name,
            status.size,
            status.modified_milliseconds,
            status.etag,
            status.file_id,
            status.version,
        )
        total += int.from_bytes(blake2b(repr(stamp).encode(), digest_size=32).digest())
        is_frozen = is_frozen and is_inside(status.path, job.frozen)
    return Listing(total, is_frozen)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """One manifest, read and checked."""

    manifest: LoadedManifest
    data: bytes
    wrong: WrongSources | None


def _load_batch(
    worker: Worker,
    numbered: Batch,
    *,
    directories: Directories,
    load: Callable[..., _Loaded],
    for_table: bool,
) -> tuple[LoadedBatch, bytes]:
    """Work: parse and check some manifests, and pack the small ones for other processes; idempotent."""
    number, batch = numbered
    by_name = {each.manifest.ref.name: each for each in worker.map(partial(load, worker), batch)}
    parts = [by_name[item.name] for item in batch]
    loaded = [part.manifest for part in parts]
    paths = {path for manifest in loaded for path in manifest.directories}
    destination = {worker.job.destination}
    directories.collect(
        number, list(paths - destination), b"".join(manifest.marks for manifest in loaded)
    )
    statistics, passed_over = worker.take_statistics(), PassedOver()
    for manifest in loaded:
        statistics = aggregate(statistics, manifest.statistics)
        passed_over = passed_over.plus(manifest.passed_over)
    small = {
        part.manifest.ref.sidecar or part.manifest.ref.digest: part.data for part in parts if part.data
    }
    refs = tuple(manifest.ref for manifest in loaded)
    wrong = tuple(part.wrong for part in parts if part.wrong is not None)
    new_files = save_new_files(worker, refs) if for_table else NO_NEW_FILES
    fills = bool(paths & destination)
    packs = bool(small)
    result = LoadedBatch(number, refs, statistics, packs, fills, wrong, new_files, passed_over)
    return result, pack(small)


def _load(
    worker: Worker,
    item: Listed | ManifestRef,
    *,
    directory: str,
    roots: tuple[str, ...],
    stamp: str,
    checks: bool,
    changes_nothing: bool,
) -> _Loaded:
    path, wrong = join(directory, item.name), None
    if isinstance(item, ManifestRef):
        kept = worker.kept(item)
        loaded = check_manifest(worker, path, item, worker.recorded(item).manifest, roots=roots)
    else:
        kept = worker.read_manifest(path, item.size)
        loaded = load_manifest(worker, path, kept, roots=roots, stamp=stamp)
        wrong = check_sources(worker, path, loaded.entries) if checks else None
        sidecar = wrong or new_sidecar(
            worker, path, kept, loaded.manifest, loaded.entries, loaded.attempt
        )
        if isinstance(sidecar, WrongSources):
            wrong = sidecar
        elif sidecar is not None and not changes_nothing:
            kept = sidecar
            loaded = replace(loaded, ref=_saved(worker, path, loaded.ref, sidecar))
    is_needed = not checks or loaded.ref.files <= PACKED_FILES
    return _Loaded(loaded, kept if is_needed and not worker.in_driver else b"", wrong)


def _saved(worker: Worker, path: str, ref: ManifestRef, sidecar: bytes) -> ManifestRef:
    """Save the sidecar of the manifest at `path`; return the manifest's reference with it."""
    directory = places_of(worker.store).copies(worker.job, parent(path))
    try:
        sidecar_digest = save_sidecar(worker, directory, ref.name, sidecar)
    except FileNotFoundError as e:
        raise gone(path) from e
    return structs.replace(ref, sidecar=sidecar_digest)


def pack(manifests: dict[str, bytes]) -> bytes:
    """Encode manifests, by digest, as one value that is handed over as an object reference."""
    return msgspec.msgpack.encode(manifests)


def unpack(parts: Sequence[bytes | None]) -> dict[str, bytes]:
    """Decode values of `pack`; manifests in a lost value are left out and read again when needed."""
    manifests: dict[str, bytes] = {}
    for part in parts:
        if part is not None:
            manifests.update(msgspec.msgpack.decode(part, type=dict[str, bytes]))
    return manifests
