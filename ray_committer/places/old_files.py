"""One old file: the facts that identify it, its rename to a place where the job deletes it, and back."""

from __future__ import annotations

import errno

from ray_committer.places.aside import move_back, take_aside
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stores.base import FileStatus, StoreOperations, Versions

Old = tuple[ReplacedFile, str]
"""An old file and its path aside."""


def replaced_file(status: FileStatus) -> ReplacedFile:
    """The recorded facts of a listed file."""
    return ReplacedFile(
        status.path, status.size, status.modified_milliseconds, status.etag, status.version
    )


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
        take_aside(store, file.path, place, file.version)
    except FileExistsError:  # after a power cut, the file can be back beside the renamed one
        if store.get_status(place) is None:
            raise
        store.delete_file(place)
        take_aside(store, file.path, place, file.version)


def put_back(store: StoreOperations, old: Old) -> None:
    """Move a file back from its path aside, or delete it if its path is taken; idempotent."""
    file, place = old
    aside = store.get_status(place)
    if aside is None:  # it was not put aside, or is gone
        return
    try:
        move_back(store, place, file.path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        if not _is_old(store, file, aside):
            raise
        store.delete_file(place)


def move_stranger_back(store: StoreOperations, old: Old) -> None:
    """Move back what is aside if it is not the recorded file."""
    file, place = old
    aside = store.get_status(place)
    if aside is not None and not _is_old(store, file, aside):
        move_back(store, place, file.path)


def restore(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Move what was put aside back to the path of the old file, and make its directory again; False if
    the path is taken. Idempotent, and true if another process does it."""
    try:
        move_back(store, aside.path, file.path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        return _is_there(store, file, aside)
    return True


def _is_there(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether the file aside is at its path, too: by a rename in two steps, of which one was done, or
    after a power cut."""
    there = store.get_status(file.path)
    if there is None:
        return False
    if there.file_id is not None and there.file_id == aside.file_id:
        store.delete_file(aside.path)
        return True
    return is_same(file, there) and is_same(file, aside)


def is_same(file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether a file is the one that was listed, by the facts that a rename keeps."""
    told = (aside.is_directory, aside.size, aside.modified_milliseconds)
    return told == (False, file.size, file.modified_milliseconds)


def _is_old(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether the file aside is the old one; where files have versions, the rename named it."""
    return store.capabilities.versions is not Versions.NONE or is_same(file, aside)
