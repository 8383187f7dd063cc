"""How the tasks of a job write: files below its directory, to be renamed, or uploads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ray_committer.errors import StoreRefusedError, TaskCommitError, mark
from ray_committer.protocol.magic_paths import is_magic
from ray_committer.protocol.manifest import FileEntry
from ray_committer.protocol.state import UNSTAMPED
from ray_committer.stores.base import StoreOperations
from ray_committer.work.upload_file import TaskUploads, closed_uploads, is_own_file, save_copy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Output:
    """The defaults are the form for stores with renames: tasks write files, which the commit renames."""

    store: StoreOperations

    def uploading(self, places: Sequence[T]) -> Sequence[T]:
        """The places where uploads can be that are not completed: all of these, or none at all."""
        return ()

    def count_uploads(self, count: Callable[[], int]) -> int | None:
        """The number of uploads that `count` finds; None where a report shows none."""
        return None

    def stages(self, stamp: str) -> bool:
        """Whether the tasks of a job with this `stamp` write files into directories that they share."""
        return stamp != UNSTAMPED

    def open(self, directory: str, stamp: str) -> TaskUploads | None:
        """The uploads of a task attempt of the job with this `stamp`; None where it writes files."""
        return None

    def closed(self, directory: str, uploads: TaskUploads | None) -> list[FileEntry] | None:
        """The entries of the `uploads` of a task attempt, or of its notes; None if a scan is needed."""
        return None

    def save_copy(self, directory: str, stamp: str, manifest: bytes) -> None:
        """Save the manifest of a task attempt where no other one replaces it, if it names uploads."""

    def refuse_to_keep(self, destination: str) -> None:
        """`StoreRefusedError` where old files would have to be copied to be kept."""

    def is_of_committer(self, name: str) -> bool:
        """Whether a name at the destination is the directory of a committer of uploads, and no data."""
        return False


class UploadedOutput(Output):
    """The form for S3: tasks begin uploads, which nobody sees, and the commit completes them."""

    __slots__ = ()

    def uploading(self, places: Sequence[T]) -> Sequence[T]:
        return places

    def count_uploads(self, count: Callable[[], int]) -> int | None:
        return count()

    def stages(self, stamp: str) -> bool:
        return False

    def open(self, directory: str, stamp: str) -> TaskUploads | None:
        return TaskUploads(self.store, directory, None if stamp == UNSTAMPED else stamp)

    def closed(self, directory: str, uploads: TaskUploads | None) -> list[FileEntry] | None:
        """`TaskCommitError` names a file that is no note of an upload: nothing can move it."""
        for status in self.store.list_files(directory):
            if not is_own_file(status.name):
                raise TaskCommitError(
                    f"{mark(status.path)}: was written here, and S3 has no rename that could move it",
                    "write it with attempt.open()",
                )
        return uploads.entries() if uploads is not None else closed_uploads(self.store, directory)

    def save_copy(self, directory: str, stamp: str, manifest: bytes) -> None:
        if stamp != UNSTAMPED:
            save_copy(self.store, directory, manifest)

    def refuse_to_keep(self, destination: str) -> None:
        raise StoreRefusedError(
            f"{mark(destination)}: the files that a job replaces cannot be kept there: S3 has no rename",
            "nothing was changed: use --no-keep-replaced; versions of the bucket keep deleted files",
        )

    def is_of_committer(self, name: str) -> bool:
        return is_magic(name)
