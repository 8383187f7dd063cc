"""The work of one call of the load: read, parse and check some manifests, and write full packs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from msgspec import structs

from ray_committer.errors import MissingManifestsError, mark
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.places.choose import places_of
from ray_committer.protocol.iostatistics import IOStatistics, Names, packed
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.pack import NO_SECTIONS, Pack, Sections
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import JobAttempt, is_name, join
from ray_committer.stages.list_manifests import Listed
from ray_committer.work.load_ahead import Chunk
from ray_committer.work.load_manifest import LoadedManifest, load_manifest, read_manifest
from ray_committer.work.packs import PackWriter
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """The result for one batch of manifests: its `refs` in any order, its full `packs`, and the `rest`
    of its entries. `statistics` and `passed_over` are what the manifests say; `requests`, what the
    worker has asked of the store."""

    number: int
    refs: tuple[ManifestRef, ...]
    packs: tuple[Pack, ...] = ()
    rest: Sections = NO_SECTIONS
    statistics: IOStatistics = IOStatistics()  # noqa: RUF009 - frozen
    passed_over: PassedOver = PassedOver()  # noqa: RUF009 - frozen
    fills_destination: bool = False
    requests: IOStatistics = IOStatistics()  # noqa: RUF009 - frozen


Load = Callable[[Worker, Listed], LoadedManifest]


def load_batch(
    worker: Worker,
    numbered: tuple[int, tuple[Listed, ...]],
    *,
    directories: DirectoryCoordinator,
    load: Load,
    saves: bool,
) -> LoadedBatch:
    """Work: load some manifests; idempotent. Entries are in packs as soon as a manifest is loaded."""
    number, batch = numbered
    names: dict[Names, Names] = {}
    chunk = Chunk(PackWriter(worker.store, worker.job, saves=saves))
    for loaded in worker.map(partial(load, worker), batch):
        chunk.add(loaded)
        chunk.refs[-1] = structs.replace(
            loaded.ref,
            statistics=packed(loaded.statistics, names),
            passed_over=loaded.passed_over,
        )
    chunk.end()
    handed_over = hand_over(worker.job, number, chunk, directories)
    return replace(handed_over, requests=worker.store.take_statistics())


def hand_over(
    job: JobAttempt, number: int, chunk: Chunk, directories: DirectoryCoordinator
) -> LoadedBatch:
    """Give the coordinator the directories and destinations of a chunk; the rest is the result."""
    paths = [path for path in chunk.directories if path != job.destination]
    directories.collect(number, paths, bytes(chunk.marks))
    return LoadedBatch(
        number,
        tuple(chunk.refs),
        chunk.packs,
        chunk.rest,
        statistics=chunk.statistics.statistics,
        passed_over=chunk.passed_over,
        fills_destination=job.destination in chunk.directories,
    )


def load_listed(
    worker: Worker, item: Listed, *, directory: str, roots: tuple[str, ...], stamp: str
) -> LoadedManifest:
    """Load one listed manifest of a job."""
    path = join(directory, item.name)
    data = read_manifest(worker, path, item.size)
    return load_manifest(worker, path, data, roots=roots, stamp=stamp)


def load_named(worker: Worker, item: Listed, *, roots: tuple[str, ...], stamp: str) -> LoadedManifest:
    """Load a manifest that the driver has named, frozen or not; its size is not compared."""
    places = places_of(worker.store).manifests(worker.job) if is_name(item.name) else ()
    for path in (join(directory, item.name) for directory in places):
        with suppress(FileNotFoundError, NotADirectoryError):
            data = worker.store.read(path)
            return load_manifest(worker, path, data, roots=roots, stamp=stamp)
    raise MissingManifestsError(
        f"{mark(join(worker.job.manifests, item.name))}: was saved by a task that has committed, but is "
        "gone"
    )
