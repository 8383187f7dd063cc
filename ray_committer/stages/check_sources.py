"""Look, before the record, at the files that tasks wrote: none may be missing or changed.

One listing a directory, where a listing is cheap. What changes afterwards is met by the rename.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ray_committer.errors import ManifestError
from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.recovery import prove
from ray_committer.stages.batches import batches
from ray_committer.stages.context import JobContext
from ray_committer.stages.entries import Entry, entries
from ray_committer.stages.obstacles import SHOWN, some_of
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import FileStatus, StoreOperations, Versions

FILES_A_LISTING = 8
"""So many files must be in a directory of a task, on average, for a listing of it to be worth its while;
where a task has only one directory, it always is."""


@dataclass(frozen=True, slots=True)
class WrongSources:
    """The `files` of a manifest that are missing, or not what it says: how many, and some in words."""

    manifest: str
    files: int
    named: tuple[str, ...]


def wrong_sources(path: str, found: Sequence[tuple[Entry, str | None]]) -> WrongSources | None:
    """What is wrong with files of the manifest at `path`, each in words; None if nothing is."""
    wrong = [(entry, what) for entry, what in found if what is not None]
    named = tuple(f"{entry.source}: {what}" for entry, what in wrong[:SHOWN])
    return WrongSources(path, len(wrong), named) if wrong else None


def sources_error(wrong: Sequence[WrongSources]) -> ManifestError:
    """The error that names wrong sources of one manifest or more."""
    named = some_of([one for each in wrong for one in each.named], sum(each.files for each in wrong))
    files, path, others = sum(each.files for each in wrong), wrong[0].manifest, len(wrong) - 1
    if not others:
        return ManifestError(
            f"{path}: names {files} files that are not what it says; run the task again: {named}"
        )
    return ManifestError(
        f"{path} and {others} other manifests: name {files} files that are not what they say; run the "
        f"tasks again: {named}"
    )


def check_sources(worker: Worker, path: str, loaded: Sequence[Entry]) -> WrongSources | None:
    """Which files of the manifest at `path` are missing, or not what it says, where a listing is
    cheap."""
    directories = _to_be_listed(worker.store, loaded)
    return _compare(path, loaded, [_listed(worker.store, one) for one in directories])


def check_sources_at_once(
    context: JobContext, manifests: Sequence[ManifestRef]
) -> tuple[WrongSources, ...]:
    """`check_sources` of manifests that were loaded before; by the names of the manifests.

    Workers are given whole manifests, and list with threads of their own; so are the threads of this
    process, unless they are more: then each is given directories, of which one task may have many.
    """
    executor = context.executor
    if executor.starts_workers or len(manifests) >= executor.width:
        groups = executor.run(_check_sources, batches(executor, manifests))
        found = [one for group in groups for one in group]
    else:
        (read,) = executor.run(_read, [tuple(manifests)])
        parts = executor.run(_list, batches(executor, _wanted(read)))
        found = _wrong(context.job, read, {path: held for part in parts for path, held in part.items()})
    return tuple(sorted(found, key=lambda one: one.manifest))


@dataclass(frozen=True, slots=True)
class _Read:
    """A manifest's entries, and the directories to list for them."""

    name: str
    entries: list[Entry]
    directories: set[str]


def _check_sources(worker: Worker, manifests: tuple[ManifestRef, ...]) -> list[WrongSources]:
    """Work: `check_sources` of some manifests, all their directories at once."""
    read = _read(worker, manifests)
    return _wrong(worker.job, read, _list(worker, _wanted(read)))


def _read(worker: Worker, manifests: Sequence[ManifestRef]) -> list[_Read]:
    """Work: read some manifests, most of which this process has kept."""

    def read(ref: ManifestRef) -> _Read:
        loaded = list(entries(worker.recorded(ref).manifest, worker.store.spec))
        return _Read(ref.name, loaded, _to_be_listed(worker.store, loaded))

    return list(worker.map(read, manifests))


def _wanted(read: Sequence[_Read]) -> list[str]:
    return sorted({directory for one in read for directory in one.directories})


def _list(worker: Worker, directories: Sequence[str]) -> dict[str, list[FileStatus]]:
    """Work: what is in some directories."""
    return dict(worker.map(lambda path: (path, _listed(worker.store, path)), directories))


def _wrong(
    job: JobAttempt, read: Sequence[_Read], listings: Mapping[str, list[FileStatus]]
) -> list[WrongSources]:
    compared = (
        _compare(
            join(job.manifests, one.name), one.entries, [listings[path] for path in one.directories]
        )
        for one in read
    )
    return [wrong for wrong in compared if wrong is not None]


def _to_be_listed(store: StoreOperations, loaded: Sequence[Entry]) -> set[str]:
    """The directories of a manifest's files; none if a listing of them is not worth its while."""
    directories = {parent(entry.source) for entry in loaded}
    is_worth = len(directories) == 1 or len(loaded) >= FILES_A_LISTING * len(directories)
    is_cheap = store.capabilities.versions is Versions.NONE and store.capabilities.listing_is_cheap
    return directories if is_worth and is_cheap else set()


def _compare(
    path: str, loaded: Sequence[Entry], listings: Sequence[list[FileStatus]]
) -> WrongSources | None:
    """What is wrong with the files of the manifest at `path`, if anything was listed."""
    if not listings:
        return None
    found = {status.path: status for listing in listings for status in listing}
    return wrong_sources(path, [(entry, _is_wrong(entry, found.get(entry.source))) for entry in loaded])


def has_another_size(entry: Entry, found: FileStatus | None) -> str | None:
    """What is wrong with a file that is missing, or longer or shorter than its manifest says."""
    if found is None:
        return "is not there"
    if found.is_directory:
        return "is a directory"
    if found.size != entry.expected.size:
        return f"has {found.size} bytes, not {entry.expected.size}"
    return None


def _is_wrong(entry: Entry, found: FileStatus | None) -> str | None:
    what = has_another_size(entry, found)
    if what is not None or found is None:
        return what
    return None if prove(entry.expected, found.observation()) else "was changed after that"


def _listed(store: StoreOperations, directory: str) -> list[FileStatus]:
    try:
        return store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
