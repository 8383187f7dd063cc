"""Check, before the record, the files of all tasks at once: none can be missing or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ray_committer.errors import ManifestError, mark, some_of
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.record import ManifestRef
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, unpack
from ray_committer.stores.base import FileStatus
from ray_committer.work.batches import batches
from ray_committer.work.entries import Entry, entries
from ray_committer.work.sources import WrongSources, compare, directories_to_list, list_directory
from ray_committer.work.worker import Worker


def sources_error(wrong: Sequence[WrongSources]) -> ManifestError:
    """The error that names wrong sources of one manifest or more."""
    named = some_of([name for each in wrong for name in each.named], sum(each.files for each in wrong))
    files, path, more = sum(each.files for each in wrong), wrong[0].manifest, len(wrong) - 1
    if not more:
        return ManifestError(
            f"{mark(path)}: names {files} files that are missing or changed",
            f"abort the job and run it again: {named}",
        )
    return ManifestError(
        f"{mark(path)} and {more} other manifests: name {files} files that are missing or changed",
        f"abort the job and run it again: {named}",
    )


def check_sources_at_once(context: JobContext, loaded: LoadedManifests) -> tuple[WrongSources, ...]:
    """`check_sources` for manifests that were loaded before; sorted by the names of the manifests.
    Threads get whole manifests, or directories if there are fewer manifests than threads."""
    executor = context.executor
    # Whole manifests: workers then need no exchange of listings. With fewer manifests than threads,
    # directories keep all threads at work.
    if executor.starts_workers or len(loaded.manifests) >= executor.width:
        groups = executor.run(_check_sources, loaded.batches())
        wrong_sources = [sources for group in groups for sources in group]
    else:
        (read,) = executor.run(_read, [loaded.manifests])
        parts = executor.run(_list, batches(executor, _wanted(read)))
        wrong_sources = _wrong(
            context.job, read, {path: held for part in parts for path, held in part.items()}
        )
    return tuple(sorted(wrong_sources, key=lambda sources: sources.manifest))


@dataclass(frozen=True, slots=True)
class _Read:
    """A manifest's entries, and the directories to list for them."""

    name: str
    entries: list[Entry]
    directories: set[str]


def _check_sources(
    worker: Worker, manifests: tuple[ManifestRef, ...], *packed: bytes | None
) -> list[WrongSources]:
    """Work: `check_sources` of some manifests, all their directories at once."""
    read = _read(worker, manifests, unpack(packed))
    return _wrong(worker.job, read, _list(worker, _wanted(read)))


def _read(
    worker: Worker, manifests: Sequence[ManifestRef], packed: Mapping[str, bytes] = MappingProxyType({})
) -> list[_Read]:
    """Work: read some manifests, unless they are `packed` or this process has them in memory."""

    def read(ref: ManifestRef) -> _Read:
        loaded = list(entries(worker.recorded(ref, packed).manifest, worker.store.spec))
        return _Read(ref.name, loaded, directories_to_list(worker.store, loaded))

    return list(worker.map(read, manifests))


def _wanted(read: Sequence[_Read]) -> list[str]:
    return sorted({directory for manifest in read for directory in manifest.directories})


def _list(worker: Worker, directories: Sequence[str]) -> dict[str, list[FileStatus]]:
    return dict(worker.map(lambda path: (path, list_directory(worker.store, path)), directories))


def _wrong(
    job: JobAttempt, read: Sequence[_Read], listings: Mapping[str, list[FileStatus]]
) -> list[WrongSources]:
    compared = (
        compare(
            join(job.manifests, manifest.name),
            manifest.entries,
            [listings[path] for path in manifest.directories],
        )
        for manifest in read
    )
    return [wrong for wrong in compared if wrong is not None]
