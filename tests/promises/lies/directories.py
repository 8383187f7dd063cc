"""Stores that make, move or delete directories otherwise than they must."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ray_committer.protocol.paths import join, parent
from ray_committer.testing import Identity, MemoryStore
from tests.promises.lies.lie import Lie


class HidesDirectoriesAbove(MemoryStore):
    def mkdirs(self, path: str) -> None:
        before = {*self._directories}
        super().mkdirs(path)
        self._directories = before | {path}


class OverlooksFilesInTheWay(MemoryStore):
    def mkdirs(self, path: str) -> None:
        with suppress(FileExistsError):
            super().mkdirs(path)


class RefusesButRemovesFiles(MemoryStore):
    def mkdirs(self, path: str) -> None:
        try:
            super().mkdirs(path)
        except FileExistsError:
            self._files.pop(path, None)
            raise


class RemovesFullDirectories(MemoryStore):
    def remove_empty_directory(self, path: str) -> bool:
        return self.delete_directory(path)


class RemovesNothing(MemoryStore):
    def remove_empty_directory(self, path: str) -> bool:
        return self.get_status(path) is not None and not self.list_status(path)


class RemovesAlways(MemoryStore):
    def remove_empty_directory(self, path: str) -> bool:
        return super().remove_empty_directory(path) or self.get_status(path) is None


class MovesDirectoriesByCopy(MemoryStore):
    def move_directory(self, source: str, dest: str) -> None:
        super().move_directory(source, dest)
        for path, data in self.files(dest).items():
            self.write(path, data)


class MovesWhatIsMissing(MemoryStore):
    def move_directory(self, source: str, dest: str) -> None:
        with suppress(FileNotFoundError):
            super().move_directory(source, dest)


class MovesIntoTheDirectory(MemoryStore):
    """As HttpFS, or ``mv``."""

    def move_whole(self, source: str, dest: str) -> None:
        inner = join(dest, os.path.basename(source))
        super().move_whole(source, inner if dest in self._directories else dest)


class ReplacesEmptyDirectories(MemoryStore):
    """As ``rename`` of the kernel."""

    def move_whole(self, source: str, dest: str) -> None:
        self.move_directory(source, dest)


class MakesParentsOfDirectories(MemoryStore):
    def move_whole(self, source: str, dest: str) -> None:
        self.mkdirs(parent(dest))
        super().move_whole(source, dest)


class CopiesAndDeletes(MemoryStore):
    def move_whole(self, source: str, dest: str) -> None:
        super().move_whole(source, dest)
        for path, data in self.files(dest).items():
            self.write(path, data)


class ForgetsAChild(MemoryStore):
    def move_whole(self, source: str, dest: str) -> None:
        super().move_whole(source, dest)
        self.delete_file(max(self.files(dest), default=source))


class LeavesTheDirectory(MemoryStore):
    def move_whole(self, source: str, dest: str) -> None:
        super().move_whole(source, dest)
        self.mkdirs(source)


class RefusesButMoves(MemoryStore):
    def move_whole(self, source: str, dest: str) -> None:
        self.move_directory(source, dest)
        raise OSError(errno.ENOTSUP, "not supported", source)


class LooksBeforeItMoves(MemoryStore):
    """As a client that looks whether anything is there, and then makes a request without a condition."""

    def __init__(self, **kind: Any) -> None:
        super().__init__(**kind)
        self._seen: dict[str, bool] = {}

    def move_whole(self, source: str, dest: str) -> None:
        if self._seen.setdefault(dest, self.get_status(dest) is not None):
            raise FileExistsError(errno.EEXIST, "exists", source)
        self.delete_directory(dest)
        super().move_whole(source, dest)


class DeletesWhatIsNew(MemoryStore):
    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        return holds() and super().delete_listed(directories, lambda: True)


class DeletesBeforeItAsks(MemoryStore):
    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        super().delete_listed(directories, lambda: True)
        return holds()


class DeletesNoMarks(MemoryStore):
    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        marks = {*self._directories}
        is_done = super().delete_listed(directories, holds)
        self._directories |= marks
        return is_done


class SetsAsideAnywhere(MemoryStore):
    def set_aside(self, path: str, place: str) -> None:
        self.mkdirs(parent(place))
        super().set_aside(path, place)


class SetsAsideWhatIsMissing(MemoryStore):
    def set_aside(self, path: str, place: str) -> None:
        if self.get_status(path):
            super().set_aside(path, place)


LIES = [
    Lie(HidesDirectoriesAbove, {"directories", "move a directory"}),
    Lie(OverlooksFilesInTheWay, {"a file blocks a directory"}),
    Lie(RefusesButRemovesFiles, {"a file blocks a directory"}),
    Lie(RemovesFullDirectories, {"remove an empty directory"}),
    Lie(RemovesNothing, {"remove an empty directory"}),
    Lie(RemovesAlways, {"remove an empty directory"}),
    Lie(MovesDirectoriesByCopy, {"move a directory"}),
    Lie(MovesDirectoriesByCopy, {"move a directory"}, Identity.MODIFICATION_TIME),
    Lie(MovesWhatIsMissing, {"move a directory"}),
    Lie(MovesIntoTheDirectory, {"move a directory whole"}),
    Lie(ReplacesEmptyDirectories, {"move a directory whole"}),
    Lie(MakesParentsOfDirectories, {"move a directory whole"}),
    Lie(CopiesAndDeletes, {"move a directory whole"}),
    Lie(CopiesAndDeletes, {"move a directory whole"}, Identity.MODIFICATION_TIME),
    Lie(ForgetsAChild, {"move a directory whole"}),
    Lie(LeavesTheDirectory, {"move a directory whole"}),
    Lie(RefusesButMoves, {"move a directory whole"}),
    Lie(LooksBeforeItMoves, {"move a directory whole"}),
    Lie(DeletesWhatIsNew, {"delete spares what is new"}, is_flat=True),
    Lie(DeletesBeforeItAsks, {"delete spares what is new"}, is_flat=True),
    Lie(DeletesNoMarks, {"delete spares what is new"}, is_flat=True),
    Lie(SetsAsideAnywhere, {"set aside"}),
    Lie(SetsAsideWhatIsMissing, {"set aside"}),
]
