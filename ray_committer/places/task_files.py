"""The files of a task whose driver is this package: where they are written before the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from ray_committer.places.choose import needed, output_of
from ray_committer.protocol.paths import join, parent
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.output import open_output
from ray_committer.work.upload_file import TaskUploads


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of one task attempt, by their names relative to the `destination`; they are written
    below its `directory` or, where nothing is renamed, as `uploads`. `named` are the paths so far."""

    store: StoreOperations
    destination: str
    directory: str
    uploads: TaskUploads | None = None
    named: set[str] = field(default_factory=set)

    def open(self, name: str) -> BinaryIO:
        """Open a new file for writing. The caller closes it."""
        if self.uploads is not None:
            return self.uploads.open(join(self.destination, name))  # type: ignore[return-value]
        return open_output(self.store, self.path(name))

    def path(self, name: str) -> str:
        """Where a new file is written, on a store with renames; its directory is made."""
        path = join(self.directory, name)
        self.named.add(path)
        for directory in needed(self.store, (parent(path),)):
            self.store.mkdirs(directory)
        return path


def task_files(store: StoreOperations, destination: str, directory: str, stamp: str) -> TaskFiles:
    """The files of a task attempt that was just set up in `directory`, of the job with this `stamp`."""
    return TaskFiles(store, destination, directory, output_of(store).open(directory, stamp))
