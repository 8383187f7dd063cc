"""The work of one call of the load: read, parse and check some manifests, and write full packs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import MissingManifestsError, mark
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.places.choose import places_of
from ray_committer.protocol.iostatistics import IOStatistics, Totals
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.pack import NO_SECTIONS, Pack, Sections
from ray_committer.protocol.passed_over import PassedOver
from ray_committer.protocol.paths import is_name, join
from ray_committer.stages.list_manifests import Listed
from ray_committer.work.load_manifest import LoadedManifest, load_manifest, read_manifest
from ray_committer.work.packs import PackWriter
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """The result for one batch of manifests: its full `packs`, and the `rest` of its entries."""

    number: int
    refs: tuple[ManifestRef, ...]
    packs: tuple[Pack, ...] = ()
    rest: Sections = NO_SECTIONS
    statistics: IOStatistics = IOStatistics()  # noqa: RUF009 - frozen
    passed_over: PassedOver = PassedOver()  # noqa: RUF009 - frozen
    fills_destination: bool = False


Batch = tuple[int, tuple[Listed, ...]]
Load = Callable[[Worker, Listed], LoadedManifest]


def load_batch(
    worker: Worker,
    numbered: Batch,
    *,
    directories: DirectoryCoordinator,
    load: Load,
    saves: bool,
) -> LoadedBatch:
    """Work: load some manifests; idempotent. Entries are in packs as soon as a manifest is loaded."""
    number, batch = numbered
    writer = PackWriter(worker.store, worker.job, saves=saves)
    refs, paths, marks = dict[str, ManifestRef](), set[str](), list[bytes]()
    totals, passed_over = Totals(), PassedOver()
    for loaded in worker.map(partial(load, worker), batch):
        refs[loaded.ref.name] = loaded.ref
        paths.update(loaded.directories)
        marks.append(loaded.marks)
        totals.add(loaded.statistics)
        if loaded.passed_over.number:
            passed_over = passed_over.plus(loaded.passed_over)
        writer.add(loaded.entries, loaded.directories)
    destination = {worker.job.destination}
    directories.collect(number, list(paths - destination), b"".join(marks))
    totals.add(worker.take_statistics())
    return LoadedBatch(
        number,
        tuple(refs[item.name] for item in batch if item.name in refs),
        rest=writer.rest(),
        packs=tuple(writer.packs),
        statistics=totals.statistics,
        passed_over=passed_over,
        fills_destination=bool(paths & destination),
    )


def load_listed(
    worker: Worker,
    item: Listed,
    *,
    directory: str,
    roots: tuple[str, ...],
    stamp: str,
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
