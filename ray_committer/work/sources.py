"""Compare the files of tasks with what their manifests say: which are missing or changed.

It makes one listing per directory, where a listing is cheap. The rename finds what changes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ray_committer.errors import SHOWN, mark
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import prove
from ray_committer.stores.base import FileStatus, StoreOperations, Versions
from ray_committer.work.worker import Worker


@dataclass(frozen=True, slots=True)
class WrongSources:
    """The number of `files` that are missing or changed, and some of them in words."""

    files: int
    named: tuple[str, ...]


def wrong_sources(described: Sequence[tuple[Entry, str | None]]) -> WrongSources | None:
    """What is wrong with some files, each `described` if it is; or None."""
    wrong = [(entry, what) for entry, what in described if what is not None]
    named = tuple(f"{mark(entry.source)}: {what}" for entry, what in wrong[:SHOWN])
    return WrongSources(len(wrong), named) if wrong else None


def check_sources(worker: Worker, loaded: Sequence[Entry]) -> WrongSources | None:
    """Find the files of a manifest that are missing or changed, where a listing is cheap."""
    directories = directories_to_list(worker.store, loaded)
    return compare(loaded, [list_directory(worker.store, path, anew=True) for path in directories])


def directories_to_list(store: StoreOperations, loaded: Iterable[Entry]) -> set[str]:
    """The directories of a manifest's files, however few these are; none if a listing is not cheap."""
    is_cheap = store.capabilities.versions is Versions.NONE and store.capabilities.listing_is_cheap
    return {parent(entry.source) for entry in loaded} if is_cheap else set()


def compare(loaded: Sequence[Entry], listings: Sequence[list[FileStatus]]) -> WrongSources | None:
    """What is wrong with some files, if anything was listed."""
    if not listings:
        return None
    statuses = {status.path: status for listing in listings for status in listing}
    return wrong_sources([(entry, _is_wrong(entry, statuses.get(entry.source))) for entry in loaded])


def has_another_size(entry: Entry, status: FileStatus | None) -> str | None:
    """Describe a file that is missing, or that is longer or shorter than its manifest says."""
    if status is None:
        return "is not there"
    if status.is_directory:
        return "is a directory"
    if status.is_special:
        return "is not a regular file"
    if status.size != entry.expected.size:
        return f"has {status.size} bytes, not {entry.expected.size}"
    return None


def _is_wrong(entry: Entry, status: FileStatus | None) -> str | None:
    what = has_another_size(entry, status)
    if what is not None or status is None:
        return what
    return (
        None if prove(entry.expected, status.observation()) else "was changed after its task committed"
    )


def list_directory(store: StoreOperations, directory: str, *, anew: bool = False) -> list[FileStatus]:
    """List a directory, `anew` past each cache; a directory that does not exist is empty."""
    try:
        return store.list_anew(directory) if anew else store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
