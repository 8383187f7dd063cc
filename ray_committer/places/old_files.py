"""How an old file goes, on one kind of store: the facts that identify it, and its way aside and back.

A process may sleep between its look at a file and the removal, and a later job may write a file of that
name. So what others can see is never deleted after a look. If files have versions, the request names the
version. Otherwise the file is renamed to a directory that only one job uses and that ends with it, and
is compared there. A process that wakes up later finds no such directory, and takes nothing.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ray_committer.errors import CommitStateUnknownError, mark
from ray_committer.limits.settle import settle
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stores.base import FileStatus, StoreOperations

Old = tuple[ReplacedFile, str]
"""An old file and its path aside."""


@dataclass(frozen=True, slots=True)
class OldFiles(ABC):
    """Old files on one store, which a job replaces."""

    store: StoreOperations

    @property
    def puts_aside(self) -> bool:
        """Whether a removal is a rename to a directory that is made before, and taken away after it."""
        return False

    @property
    def can_take(self) -> bool:
        """Whether a file can be put aside in one step that takes no other file of that name for good."""
        return True

    def checked(self, paths: Iterable[str]) -> Iterable[str]:
        """The files to be asked whether they can be removed: all, or none where no request shows it."""
        return paths if self.store.has(StoreOperations.what_stays) else ()

    def look(self, path: str) -> FileStatus | None:
        """Describe what is at a path, with its version if files have one."""
        return self.store.get_status(path)

    def take(self, path: str, place: str, version: str | None = None) -> None:
        """Rename a file to a place of the job's own. Without versions, any other file, or directory,
        that is at `path` by then is taken, too: the caller compares, and moves it back.
        ``FileNotFoundError`` if the file, or the directory of `place`, is missing. ``FileExistsError``
        if it is another version, or if a file is at `place`; some stores replace that one."""
        settle(
            lambda: self._rename(path, place, version),
            lambda: is_gone(self.store, path) and not is_gone(self.store, place),
        )

    def _rename(self, path: str, place: str, version: str | None) -> None:
        self.store.rename(path, place, version)

    @abstractmethod
    def remove(self, path: str, version: str | None, put_aside: Callable[[], bool]) -> bool:
        """Remove a file in the safest way that the store offers, which can be to `put_aside`; False if
        it was not there. ``FileExistsError`` if it has changed."""

    def clear(self, old: Old) -> None:
        """Take a file away, aside if that is possible; ``FileExistsError`` if it has changed."""
        if is_unchanged(self.store, old[0]):
            self.put_aside(old)
            self.move_stranger_back(old)

    def is_old(self, file: ReplacedFile, aside: FileStatus) -> bool:
        """Whether the file aside is the old one."""
        return is_same(file, aside)

    def put_aside(self, old: Old) -> None:
        """Rename a file aside; ``FileNotFoundError`` if it or the directory aside is missing."""
        file, place = old
        try:
            self.take(file.path, place, file.version)
        except FileExistsError:  # after a power cut, the file can be back beside the renamed one
            if is_gone(self.store, place):
                raise
            self.store.delete_file(place)
            self.take(file.path, place, file.version)

    def put_back(self, old: Old) -> None:
        """Move a file back from its path aside, or delete it if its path is taken; idempotent."""
        file, place = old
        aside = self.store.get_status(place)
        if aside is None:  # it was not put aside, or is gone
            return
        try:
            move_back(self.store, place, file.path)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            if not self.is_old(file, aside):
                raise
            self.store.delete_file(place)

    def move_stranger_back(self, old: Old) -> None:
        """Move back what is aside if it is not the recorded file."""
        file, place = old
        aside = self.store.get_status(place)
        if aside is not None and not self.is_old(file, aside):
            move_back(self.store, place, file.path)


class FilesAside(OldFiles):
    """The form for file systems and HDFS, where no request can name a version."""

    __slots__ = ()

    @property
    def puts_aside(self) -> bool:
        return True

    def _rename(self, path: str, place: str, version: str | None) -> None:
        self.store.set_aside(path, place)

    def remove(self, path: str, version: str | None, put_aside: Callable[[], bool]) -> bool:
        return put_aside()


class VersionedFiles(OldFiles):
    """The form for Azure and Google: a deletion, and a rename, name the version."""

    __slots__ = ()

    def remove(self, path: str, version: str | None, put_aside: Callable[[], bool]) -> bool:
        return self.store.delete_version(path, version)

    def is_old(self, file: ReplacedFile, aside: FileStatus) -> bool:
        return True  # the rename named it


class UnmovableFiles(VersionedFiles):
    """The form for S3: a deletion names the version, and nothing is renamed."""

    __slots__ = ()

    @property
    def can_take(self) -> bool:
        return False

    def look(self, path: str) -> FileStatus | None:
        """One request, which also shows the version."""
        there = self.store.read_state(path)
        if there is None:
            return None
        size = len(there.text.encode(errors="surrogateescape"))
        return FileStatus(path, is_directory=False, size=size, etag=there.version, version=there.version)

    def clear(self, old: Old) -> None:
        self.store.delete_version(old[0].path, old[0].version)


class PlainFiles(OldFiles):
    """The form for a store that offers nothing better than to look first."""

    __slots__ = ()

    @property
    def can_take(self) -> bool:
        return False

    def remove(self, path: str, version: str | None, put_aside: Callable[[], bool]) -> bool:
        return self.store.delete_file(path)

    def clear(self, old: Old) -> None:
        if is_unchanged(self.store, old[0]):
            self.store.delete_file(old[0].path)


def can_have_two_names(store: StoreOperations) -> bool:
    """Whether a file can be at both ends: between a link and an unlink, or after a power cut."""
    return store.has(StoreOperations.links_files) or store.has(StoreOperations.sync)


def replaced_file(status: FileStatus) -> ReplacedFile:
    """The recorded facts of a listed file."""
    return ReplacedFile(
        status.path, status.size, status.modified_milliseconds, status.etag, status.version
    )


def is_unchanged(store: StoreOperations, file: ReplacedFile) -> bool:
    """Whether a file is there unchanged; ``FileExistsError`` if it has changed."""
    status = store.get_status(file.path)
    if status is not None and replaced_file(status) != file:
        raise FileExistsError(errno.EEXIST, "has changed", file.path)
    return status is not None


def restore(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Move what was put aside back to the path of the old file, and make its directory again; False if
    the path is taken. Idempotent, and true if another process does it."""
    try:
        move_back(store, aside.path, file.path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        return _is_there(store, file, aside)
    return True


def _is_there(store: StoreOperations, file: ReplacedFile, aside: FileStatus) -> bool:
    """Whether the file aside is at its path, too: by half a rename, or after a power cut."""
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


def move_back(store: StoreOperations, place: str, path: str) -> None:
    """Move a file or directory back from its place aside, never over another; idempotent."""
    aside = store.get_status(place)
    if aside is None:
        return
    rename = store.rename if not aside.is_directory else store.move_directory
    for is_last in (False, True):
        try:
            settle(lambda: rename(place, path), lambda: is_gone(store, place))
        except FileNotFoundError:
            if is_gone(store, place):
                return
            if is_last:
                raise
            store.mkdirs(parent(path))  # it was removed when it was empty
        else:
            return


def return_stranger(store: StoreOperations, place: str, path: str) -> None:
    """Move back what is not the caller's; `CommitStateUnknownError`, both files kept, beside another."""
    try:
        move_back(store, place, path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as e:
        raise CommitStateUnknownError(
            f"{mark(path)}: another program wrote a file there while its name was taken away, and then "
            f"one more: the first is now {mark(place)}, and nothing is lost",
            "move one of the two away, and run the same command again",
        ) from e


def is_gone(store: StoreOperations, path: str) -> bool:
    """Whether nothing is at a path."""
    return store.get_status(path) is None
