"""Stores that make, move or delete directories otherwise than they must."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ray_committer.protocol.paths import parent
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
    Lie(DeletesWhatIsNew, {"delete spares what is new"}, is_flat=True),
    Lie(DeletesBeforeItAsks, {"delete spares what is new"}, is_flat=True),
    Lie(DeletesNoMarks, {"delete spares what is new"}, is_flat=True),
    Lie(SetsAsideAnywhere, {"set aside"}),
    Lie(SetsAsideWhatIsMissing, {"set aside"}),
]
