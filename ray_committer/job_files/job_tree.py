"""All files of one job, from one listing, on a store where a file is an upload until it is completed.

There a job has few files: its state, manifests, copies of these, and packs. So one listing shows at once
which attempts it has, which manifests these have, and what a clean-up deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.listing import attempts_named
from ray_committer.places.choose import places_of
from ray_committer.protocol.manifest import copy_name
from ray_committer.protocol.paths import CURRENT, JobAttempt, is_inside, join, parent
from ray_committer.stores.base import FileStatus, StoreOperations


@dataclass(frozen=True, slots=True)
class JobTree:
    """The files below the directory of one job, and marks of directories, as one listing showed them."""

    directory: str
    files: tuple[FileStatus, ...]

    def attempts(self, destination: str, job_id: str) -> tuple[JobAttempt, ...]:
        """The attempts of the job, by number; each has a file, since its state is one."""
        names = {
            status.path.removeprefix(f"{self.directory}/").partition("/")[0] for status in self.files
        }
        return attempts_named(destination, job_id, self.directory, names)

    def manifests(self, job: JobAttempt) -> tuple[FileStatus, ...]:
        """What is directly in the directory of an attempt's manifests."""
        return tuple(
            status for status in self.files if status.name and parent(status.path) == job.manifests
        )

    def task_attempts(self, job: JobAttempt) -> tuple[str, ...]:
        """The names of the task attempts that have files."""
        below = (status.path[len(job.tasks) + 1 :] for status in self._of_tasks(job))
        return tuple(dict.fromkeys(path.partition("/")[0] for path in below))

    def _of_tasks(self, job: JobAttempt) -> list[FileStatus]:
        return [file for file in self.files if file.name and is_inside(file.path, job.tasks)]

    def own(self, job: JobAttempt) -> list[FileStatus]:
        """All of the attempt but its state, and the mark of the job's directory."""
        place, mark = join(job.state, CURRENT), f"{self.directory}/"
        return [
            status
            for status in self.files
            # The state is left out: it goes last, and only in the version that was seen (D7).
            if status.path == mark
            or (status.path.startswith(f"{job.directory}/") and status.path != place)
        ]

    def is_in_state(self, job: JobAttempt, expected: Seen) -> bool:
        """Whether the attempt was in the state `seen` when this was listed."""
        place = join(job.state, CURRENT)
        return any(
            status.path == place and status.version == expected.stored.version for status in self.files
        )

    def has_left(self, job: JobAttempt, digests: Sequence[str]) -> bool:
        """Whether an attempt of a task has left notes of uploads. Of one whose manifest counts, which is
        one of these `digests`, only the copy of its manifest is left."""
        copies = set(map(copy_name, digests))
        # Any other file is a note of an upload that nobody has completed or aborted.
        return any(status.name not in copies for status in self._of_tasks(job))


def list_tree(store: StoreOperations, directory: str) -> JobTree | None:
    """List the directory of a job; None on a store where that would list the job's data."""
    files = places_of(store).list_job(directory)
    return None if files is None else JobTree(directory, files)
