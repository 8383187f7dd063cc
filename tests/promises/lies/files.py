"""Stores that read, show, list or delete other files than they must."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import structs

from ray_committer.protocol.paths import parent
from ray_committer.stores.base import FileStatus
from ray_committer.testing import Identity, MemoryStore
from tests.promises.lies.lie import Lie


class NeverTruncates(MemoryStore):
    def write(self, path: str, data: bytes) -> None:
        old = self._files[path].data if path in self._files else b""
        super().write(path, data + old[len(data) :])


class ReadsWhatIsMissing(MemoryStore):
    def read(self, path: str) -> bytes:
        with suppress(FileNotFoundError):
            return super().read(path)
        return b""


class ShowsNoSize(MemoryStore):
    def get_status(self, path: str) -> FileStatus | None:
        status = super().get_status(path)
        return status and structs.replace(status, size=0)


class OverlooksDirectories(MemoryStore):
    def get_status(self, path: str) -> FileStatus | None:
        status = super().get_status(path)
        return None if status and status.is_directory else status


class ListsStale(MemoryStore):
    """Each directory is shown as it was at the listing before."""

    def __init__(self, **kind: Any) -> None:
        super().__init__(**kind)
        self._shown: dict[str, list[FileStatus]] = {}

    def list_status(self, path: str) -> list[FileStatus]:
        now = super().list_status(path)
        before, self._shown[path] = self._shown.get(path, now), now
        return before


class ListsFilesStale(MemoryStore):
    def __init__(self, **kind: Any) -> None:
        super().__init__(**kind)
        self._shown: dict[str, list[FileStatus]] = {}

    def list_files(self, path: str) -> list[FileStatus]:
        now = super().list_files(path)
        before, self._shown[path] = self._shown.get(path, now), now
        return before


class ListsNewFilesLate(MemoryStore):
    def list_status(self, path: str) -> list[FileStatus]:
        found = super().list_status(path)
        newest = max((file.number for file in self._files.values()), default=0)
        return [one for one in found if one.is_directory or self._files[one.path].number < newest]


class ListsBySimilarName(MemoryStore):
    """As an object store that is asked for a prefix without the slash at its end."""

    def list_files(self, path: str) -> list[FileStatus]:
        return [self._status(name) for name in self._files if name.startswith(path)]


class ListsOneLevel(MemoryStore):
    def list_files(self, path: str) -> list[FileStatus]:
        return [one for one in super().list_files(path) if parent(one.path) == path]


class ListsNoDirectories(MemoryStore):
    def list_status(self, path: str) -> list[FileStatus]:
        return [one for one in super().list_status(path) if not one.is_directory]


class ListsItself(MemoryStore):
    """As some file systems of fsspec."""

    def list_status(self, path: str) -> list[FileStatus]:
        return [self._status(path), *super().list_status(path)]


class ListsWhatIsMissing(MemoryStore):
    def list_status(self, path: str) -> list[FileStatus]:
        with suppress(FileNotFoundError):
            return super().list_status(path)
        return []


class WalksOnlyWhatIsThere(MemoryStore):
    def list_files(self, path: str) -> list[FileStatus]:
        self.list_status(path)
        return super().list_files(path)


class DeletesNothing(MemoryStore):
    def delete_file(self, path: str) -> bool:
        return True


class DeletesAlways(MemoryStore):
    """As an object store, which does not say whether anything was deleted."""

    def delete_file(self, path: str) -> bool:
        super().delete_file(path)
        return True


class DeletesDirectoriesAlways(MemoryStore):
    def delete_directory(self, path: str) -> bool:
        super().delete_directory(path)
        return True


class DeletesSilently(MemoryStore):
    def delete_file(self, path: str) -> bool:
        super().delete_file(path)
        return False


class DeletesDirectoriesSilently(MemoryStore):
    def delete_directory(self, path: str) -> bool:
        super().delete_directory(path)
        return False


class DeletesNoDirectory(MemoryStore):
    def delete_directory(self, path: str) -> bool:
        return True


class DeletesBySimilarName(MemoryStore):
    def delete_directory(self, path: str) -> bool:
        for name in [one for one in self._files if one.startswith(path)]:
            self.delete_file(name)
        return super().delete_directory(path)


class DeletesAnyVersion(MemoryStore):
    def delete_version(self, path: str, version: str | None) -> bool:
        return self.delete_file(path)


class DeletesNoVersion(MemoryStore):
    def delete_version(self, path: str, version: str | None) -> bool:
        file = self._files.get(path)
        is_done = super().delete_version(path, version)
        if file is not None:
            self._files[path] = file
        return is_done


class RefusesButDeletes(MemoryStore):
    def delete_version(self, path: str, version: str | None) -> bool:
        try:
            return super().delete_version(path, version)
        except FileExistsError:
            self.delete_file(path)
            raise


LIES = [
    Lie(NeverTruncates, {"read"}),
    Lie(ReadsWhatIsMissing, {"read"}),
    Lie(ShowsNoSize, {"status", "listings are complete"}),
    Lie(OverlooksDirectories, {"status", "directories"}),
    Lie(ListsStale, {"listings", "delete", "a state changes once"}),
    Lie(ListsFilesStale, {"listings", "delete", "move a directory", "move a directory whole"}),
    Lie(
        ListsNewFilesLate,
        {"listings", "listings are complete", "a state changes once", "one of many renames wins"},
    ),
    Lie(ListsBySimilarName, {"listings are complete"}),
    Lie(ListsOneLevel, {"listings are complete"}),
    Lie(ListsNoDirectories, {"listings are complete", "directories"}),
    Lie(
        ListsItself,
        {
            "rename enters no directory",
            "one of many renames wins",
            "listings are complete",
            "directories",
        },
    ),
    Lie(ListsWhatIsMissing, {"listings are complete", "a state changes once"}),
    Lie(WalksOnlyWhatIsThere, {"listings are complete"}),
    Lie(
        DeletesNothing,
        {"delete", "delete is bound to a version", "replace is bound to a version"},
    ),
    Lie(DeletesAlways, {"delete", "delete is bound to a version"}),
    Lie(DeletesDirectoriesAlways, {"delete"}),
    Lie(DeletesSilently, {"delete", "delete is bound to a version"}),
    Lie(
        DeletesSilently,
        {"delete", "delete is bound to a version", "a first state replaces none"},
        Identity.GENERATION,
        is_flat=True,
    ),
    Lie(DeletesDirectoriesSilently, {"delete"}),
    Lie(DeletesNoDirectory, {"delete"}, other_lines={"clean-up"}),
    Lie(DeletesBySimilarName, {"delete"}),
    Lie(DeletesAnyVersion, {"delete is bound to a version"}),
    Lie(
        DeletesAnyVersion,
        {"delete is bound to a version", "a first state replaces none"},
        Identity.GENERATION,
        is_flat=True,
    ),
    Lie(
        DeletesNoVersion,
        {"delete is bound to a version", "a first state replaces none"},
        Identity.GENERATION,
        is_flat=True,
    ),
    Lie(
        RefusesButDeletes,
        {"delete is bound to a version", "a first state replaces none"},
        Identity.GENERATION,
        is_flat=True,
    ),
]
