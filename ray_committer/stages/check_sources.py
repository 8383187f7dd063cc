"""Check, before the record, that no file of the tasks is missing or was changed.

It makes one listing per directory, where a listing is cheap. The rename finds what changes later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ray_committer.errors import ManifestError
from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.protocol.record import ManifestRef
from ray_committer.protocol.recovery import prove
from ray_committer.stages.context import JobContext
from ray_committer.stages.obstacles import SHOWN, some_of
from ray_committer.stores.base import FileStatus, StoreOperations, Versions
from ray_committer.work.batches import batches
from ray_committer.work.entries import Entry, entries
from ray_committer.work.worker import Worker

FILES_A_LISTING = 8
"""How many files a task's directories must have on average, so that listings of them save time; a
listing of a task's only directory always does."""


@dataclass(frozen=True, slots=True)
class WrongSources:
    """The number of `files` of a manifest that are missing or changed, and some of them in words."""

    manifest: str
    files: int
    named: tuple[str, ...]


def wrong_sources(path: str, found: Sequence[tuple[Entry, str | None]]) -> WrongSources | None:
    """What is wrong with `found` files of the manifest at `path`, in words; None if nothing is."""
    wrong = [(entry, what) for entry, what in found if what is not None]
    named = tuple(f"{entry.source}: {what}" for entry, what in wrong[:SHOWN])
    return WrongSources(path, len(wrong), named) if wrong else None


def sources_error(wrong: Sequence[WrongSources]) -> ManifestError:
    """The error that names wrong sources of one manifest or more."""
    named = some_of([one for each in wrong for one in each.named], sum(each.files for each in wrong))
    files, path, others = sum(each.files for each in wrong), wrong[0].manifest, len(wrong) - 1
    if not others:
        return ManifestError(
            f"{path}: names {files} files that are missing or changed; run the task again: {named}"
        )
    return ManifestError(
        f"{path} and {others} other manifests: name {files} files that are missing or changed; run "
        f"the tasks again: {named}"
    )


def check_sources(worker: Worker, path: str, loaded: Sequence[Entry]) -> WrongSources | None:
    """Find the files of the manifest at `path` that are missing or changed, where a listing is cheap."""
    directories = _to_be_listed(worker.store, loaded)
    return _compare(path, loaded, [_listed(worker.store, one) for one in directories])


def check_sources_at_once(
    context: JobContext, manifests: Sequence[ManifestRef]
) -> tuple[WrongSources, ...]:
    """`check_sources` for manifests that were loaded before; sorted by the names of the manifests.

    Workers get whole manifests, and list with their own threads. The threads of this process also get
    whole manifests, unless there are fewer manifests than threads: then each thread gets directories,
    since one task can have many.
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
    """Work: read some manifests; this process has most of them in memory."""

    def read(ref: ManifestRef) -> _Read:
        loaded = list(entries(worker.recorded(ref).manifest, worker.store.spec))
        return _Read(ref.name, loaded, _to_be_listed(worker.store, loaded))

    return list(worker.map(read, manifests))


def _wanted(read: Sequence[_Read]) -> list[str]:
    return sorted({directory for one in read for directory in one.directories})


def _list(worker: Worker, directories: Sequence[str]) -> dict[str, list[FileStatus]]:
    """Work: list some directories."""
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
    """The directories of a manifest's files; none if listings of them would save no time."""
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
    """Describe a file that is missing, or that is longer or shorter than its manifest says."""
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
    return None if prove(entry.expected, found.observation()) else "was changed after its task committed"


def _listed(store: StoreOperations, directory: str) -> list[FileStatus]:
    try:
        return store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
