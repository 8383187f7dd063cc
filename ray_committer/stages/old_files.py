"""One old file: the facts that identify it, its rename to a place where the job deletes it, and back."""

from __future__ import annotations

import errno

from ray_committer.job_files.settle import settle
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stores.base import (
    FileStatus,
    StoreOperations,
    Versions,
    move_directory,
    set_aside,
)

NOT_THERE = (errno.ENOENT, errno.EXDEV)
"""The errors that show that a file cannot be put aside; all others are failures of the store."""

Old = tuple[ReplacedFile, str]
"""An old file and its path aside."""


def replaced_file(status: FileStatus) -> ReplacedFile:
    """The recorded facts of a listed file."""
    return ReplacedFile(
        status.path, status.size, status.modified_milliseconds, status.etag, status.version
    )


def sets_aside(store: StoreOperations) -> bool:
    """Whether files are put aside because the store cannot bind a deletion to a version."""
    return store.capabilities.sets_aside and store.capabilities.versions is Versions.NONE


def can_put_aside(store: StoreOperations) -> bool:
    """Whether a file can be put aside in one step that takes no other file of that name."""
    capabilities = store.capabilities
    if capabilities.completes_uploads:
        return False
    return capabilities.sets_aside or capabilities.versions is not Versions.NONE


def is_unchanged(store: StoreOperations, file: ReplacedFile) -> bool:
    """Whether a file is there unchanged; ``FileExistsError`` if it has changed."""
    status = store.get_status(file.path)
    if status is not None and replaced_file(status) != file:
        raise FileExistsError(errno.EEXIST, "has changed", file.path)
    return status is not None


def put_aside(store: StoreOperations, old: Old) -> None:
    """Rename a file aside; ``FileNotFoundError`` if the file or the directory aside is missing."""
    file, place = old
    try:
        rename_aside(store, file, place)
    except FileExistsError:  # after a power cut, the file can be back beside the renamed one
        if store.get_status(place) is None:
            raise
        store.delete_file(place)
        rename_aside(store, file, place)


def put_back(store: StoreOperations, old: Old) -> None:
    """Move a file back from its path aside, or delete it if its path is taken; idempotent."""
    file, place = old
    aside = store.get_status(place)
    if aside is None:  # it was not put aside, or is gone
        return
    try:
        _move_back(store, place, file.path, aside)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        if not _is_same(store, file, aside):
            raise
        store.delete_file(place)


def move_stranger_back(store: StoreOperations, old: Old) -> None:
    """Move back what is aside if it is not the recorded file."""
    file, place = old
    aside = store.get_status(place)
    if aside is not None and not _is_same(store, file, aside):
        _move_back(store, place, file.path, aside)


def _is_same(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether the file aside is the one that was listed, by the facts that a rename keeps."""
    if store.capabilities.versions is not Versions.NONE:  # the rename named the version
        return True
    told = (aside.is_directory, aside.size, aside.modified_milliseconds)
    return told == (False, file.size, file.modified_milliseconds)


def rename_aside(store: StoreOperations, file: ReplacedFile, place: str) -> None:
    """Rename a file aside; ``FileExistsError`` if it has changed, or if another file is there."""
    if sets_aside(store):
        settle(lambda: set_aside(store, file.path, place), lambda: store.get_status(file.path) is None)
    else:
        _move(store, file.path, place, file.version)


def _move_back(store: StoreOperations, place: str, path: str, aside: FileStatus) -> None:
    if aside.is_directory:
        move_directory(store, place, path)
    else:
        _move(store, place, path)


def _move(store: StoreOperations, source: str, dest: str, version: str | None = None) -> None:
    settle(lambda: store.rename(source, dest, version), lambda: store.get_status(source) is None)
