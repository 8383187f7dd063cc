"""Survey jobs that Hadoop's S3A committer left and that no commit here has taken over; for ``status``.

Of each attempt the pendingsets are listed, and the largest is read, to estimate files and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.magic_jobs import LeftJob, left_attempts, list_left, uploads_in
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.at_once import streamed
from ray_committer.stores.base import FileStatus, StoreOperations


@dataclass(frozen=True, slots=True)
class LeftSurvey:
    """One attempt of a job that was left: how many tasks have committed, and the output of these tasks,
    None if it is not known; `problem`: why a pendingset could not be read."""

    attempt: JobAttempt
    directory: str
    pendingsets: int
    files: int | None = None
    bytes: int | None = None
    is_estimate: bool = False
    newest_milliseconds: int | None = None
    problem: str | None = None
    is_beside_others: bool = False

    @property
    def job_id(self) -> str:
        """The id that Spark or MapReduce gave it."""
        return self.attempt.job_id


def survey_left(store: StoreOperations, destination: str, *, exact: bool) -> Iterator[LeftSurvey]:
    """Survey the jobs that were left at a destination; with `exact`, read each pendingset."""
    for uuid in list_left(store, destination):
        attempts = left_attempts(store, destination, uuid)
        for left in attempts:
            yield _survey(store, left, exact=exact, is_beside_others=len(attempts) > 1)


def _survey(store: StoreOperations, left: LeftJob, *, exact: bool, is_beside_others: bool) -> LeftSurvey:
    sets = sorted((status for status, _ in left.pendingsets), key=lambda one: one.size)
    times = [one.modified_milliseconds for one in sets if one.modified_milliseconds is not None]
    found = partial(
        LeftSurvey,
        left.job,
        left.directory,
        len(sets),
        newest_milliseconds=max(times, default=None),
        is_beside_others=is_beside_others,
    )
    try:
        files, size = _amounts(store, left, sets if exact else sets[-1:])
    except FileNotFoundError:  # it has moved on
        return found()
    except RayCommitterError as e:
        return found(problem=str(e))
    if exact or len(sets) < 2:
        return found(files=files, bytes=size)
    ratio = sum(one.size for one in sets) / max(sets[-1].size, 1)
    return found(files=round(ratio * files), bytes=round(ratio * size), is_estimate=True)


def _amounts(store: StoreOperations, left: LeftJob, sets: list[FileStatus]) -> tuple[int, int]:
    """The files and bytes that some pendingsets name."""
    files = size = 0
    for found in streamed(store, partial(uploads_in, store, left.magic), sets):
        files += len(found)
        size += sum(one.z for one in found)
    return files, size
