"""The files of a task attempt that chooses their names: where it writes them before the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ray_committer.places.choose import needed
from ray_committer.protocol.paths import JobAttempt, parent
from ray_committer.protocol.staging import staged_path, token_of
from ray_committer.stores.base import StoreOperations

MOST_DIRECTORIES = 4096
"""A task that writes to more directories than this keeps the files of the others to itself: each is a
request when it is made, and one when the commit looks at it."""


@dataclass(slots=True)
class StagedFiles:
    """The files that one attempt writes beside the files of others.

    goes_on: whether its job is still there, by a request.
    places: by the path of each file, its place at the destination.
    has_own_directory: it has also written below its own directory.
    """

    store: StoreOperations
    job: JobAttempt
    task_attempt_id: str
    goes_on: Callable[[], bool]
    places: dict[str, str] = field(default_factory=dict)
    has_own_directory: bool = False
    _made: set[str] = field(default_factory=set)

    @property
    def token(self) -> str | None:
        """What the name of each staged file has after a hyphen; None if the attempt can have none."""
        return token_of(self.task_attempt_id)

    def path(self, place: str) -> str | None:
        """Where to write the file for `place`, a path inside the destination; its directory exists. None
        if the file must be written below the attempt's own directory. ``FileNotFoundError`` if the job
        is over."""
        path = staged_path(self.job, place, self.token) if self.token is not None else None
        directory = parent(path or "")
        if path is None or directory in self._made:
            return path
        if len(self._made) == MOST_DIRECTORIES:
            return None
        try:
            self.make(directory)
        except PermissionError:  # another user has made a directory above
            return None
        self._made.add(directory)
        return path

    def make(self, directory: str) -> None:
        """Make a directory of the job, if that goes on: `mkdirs` alone would make the directories of a
        job again that is over, and a late task would leave files of no job (R13)."""
        for path in needed(self.store, (directory,)):
            if not self.goes_on():
                raise FileNotFoundError(self.job.directory)
            self.store.mkdirs(path)
