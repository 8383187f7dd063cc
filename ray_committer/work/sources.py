"""Compare the files of tasks with what their manifests say: which are missing or changed.

It makes one listing per directory, where a listing is cheap. The rename finds what changes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ray_committer.errors import SHOWN, mark
from ray_committer.protocol.pack import Entry
from ray_committer.protocol.recovery import prove
from ray_committer.stores.base import FileStatus, StoreOperations

CHANGED = "was changed after its task committed"
"""Of a file that has the right size, and another etag or time."""


@dataclass(frozen=True, slots=True)
class WrongSources:
    """The number of `files` that are missing or changed, some of them `named` in words, and of those
    that have only `other_etags`."""

    files: int
    named: tuple[str, ...]
    other_etags: int = 0


def wrong_sources(described: Sequence[tuple[Entry, str | None]]) -> WrongSources | None:
    """What is wrong with some files, each `described` if it is; or None."""
    wrong = [(entry, what) for entry, what in described if what is not None]
    named = tuple(f"{mark(entry.source)}: {what}" for entry, what in wrong[:SHOWN])
    etags = sum(what == CHANGED and bool(entry.expected.etag) for entry, what in wrong)
    return WrongSources(len(wrong), named, etags) if wrong else None


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


def what_is_wrong(entry: Entry, status: FileStatus | None) -> str | None:
    """Describe a file that is missing, or that is not what its manifest says."""
    what = has_another_size(entry, status)
    if what is not None or status is None:
        return what
    return None if prove(entry.expected, status.observation()) else CHANGED


def list_directory(store: StoreOperations, directory: str, *, anew: bool = False) -> list[FileStatus]:
    """List a directory, `anew` past each cache; a directory that does not exist is empty."""
    try:
        return store.list_anew(directory) if anew else store.list_status(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
