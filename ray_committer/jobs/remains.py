"""Find the leftovers of dead jobs: undecided jobs in which nothing has changed for a long time.

The store does not show whether a job's tasks still run. Age is the only sign, so a job is kept if the
age of any of its files is unknown. A declared job is kept while its committer is alive, at any age. A
recorded job is never touched: files that it moved are visible, and its commit, or an undo, finishes it.

Removal is an abort. An abort changes the state, so a commit that begins at the same time either consumes
that state first or finds it consumed. What was taken away and not yet deleted is also removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import LinkedPathError, RayCommitterError
from ray_committer.job_files.job_status import Committer, JobStatus
from ray_committer.job_files.listing import (
    find_s3a,
    gone_in,
    in_directories,
    jobs_listed,
    list_temporary,
    problem,
    readable,
)
from ray_committer.job_files.others import state_inside, until_certain
from ray_committer.job_files.read_job import read_job, read_others
from ray_committer.places.choose import places_of
from ray_committer.protocol.paths import MANIFESTS, STAGED, STAGED_ROOT, TASKS, JobAttempt, join
from ray_committer.protocol.state import WITH_RECORD, Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.work.sources import list_directory

DOCTOR_PREFIX = "doctor-"
"""The prefix of the directories of ``ray-committer doctor``; a killed doctor leaves its directory."""

_RECORD = "its commit has begun"
_OTHER_RECORD = "the commit of another attempt of the job has begun"
_TAKEN = (
    "it belongs to a job that is {phase}, and a process that was paused moved it here by mistake; move "
    "it back to $dest/_temporary/$jobId/$attempt (its manifests name both)"
)
_LEFT = "Hadoop's S3A committer could still commit it; to give it up, abort it by its id"
_FOREIGN = "it is not from this protocol; a classic committer may have left it"
_AT_WORK = "process {process} on {host} is at work on its commit"


@dataclass(frozen=True, slots=True)
class Remains:
    """A directory below ``_temporary`` by its `status`, and why it is `kept` (None: it can be removed).

    The counts are None if they were not looked at. `decided` is an attempt of the same job with a
    record, so this directory must not be touched. It `has_ended` if nothing is left of a job that could
    be committed: an empty directory, or one that was taken away.
    """

    status: JobStatus
    decided: JobAttempt | None = None
    files: int | None = None
    bytes: int | None = None
    newest_milliseconds: int | None = None
    kept: str | None = None
    has_ended: bool = False

    @property
    def attempt(self) -> JobAttempt | None:
        """The job attempt; None if it is no longer one, or was not read."""
        return self.status.job if self.status.is_open and not self.status.job.is_gone else None


def find_remains(
    store: StoreOperations, destination: str, *, older_than_seconds: float, now_milliseconds: int
) -> Iterator[Remains]:
    """Look at each job attempt in turn, and list all its files unless the job has a record."""
    limit = now_milliseconds - round(older_than_seconds * 1000)
    listed = list_temporary(store, destination)
    for gone in gone_in(destination, listed):
        yield _gone_remains(store, JobStatus(gone), limit)
    for group in in_directories(jobs_listed(store, destination, listed)).values():
        try:
            states = [read_job(store, attempt) for attempt in readable(group)]
        except (PermissionError, LinkedPathError) as e:
            directory = group[0].directory  # of the job: it is not known which attempt was not read
            place = replace(group[0].job, number=0, directory=directory)
            unread = JobStatus(place, Committer.UNKNOWN, closed=e)
            yield Remains(unread, kept=problem(e, directory))
            continue
        decided = next((status.job for status in states if status.phase in WITH_RECORD), None)
        for state in states:
            yield _attempt_remains(store, state, decided, limit, now_milliseconds)
        for status in group:
            if status.closed is not None:
                yield Remains(status, kept=problem(status.closed, status.job.directory))
            elif not status.is_attempt:
                yield _other_remains(store, status, limit)


def _gone_remains(store: StoreOperations, gone: JobStatus, limit: int) -> Remains:
    """An attempt that was taken away: removed if its job has ended, otherwise kept as a mistake."""
    remains = Remains(gone, has_ended=True)
    try:
        state = state_inside(store, gone.job)
    except (PermissionError, RayCommitterError) as e:
        return replace(remains, kept=problem(e, gone.job.directory))
    if state is None:  # the state may be deleted already: only its age decides
        return _looked_at(store, remains, limit)
    if state.phase in (Phase.COMMITTED, Phase.ABORTED):
        return remains
    return replace(remains, kept=_TAKEN.format(phase=state.phase))


def _attempt_remains(
    store: StoreOperations,
    state: JobStatus,
    decided: JobAttempt | None,
    limit: int,
    now_milliseconds: int,
) -> Remains:
    remains = Remains(state, decided, has_ended=state.is_remnant)
    if decided is not None:
        return replace(remains, kept=_RECORD if decided == state.job else _OTHER_RECORD)
    if state.phase is Phase.ABORTED:  # by a process that stopped before the deletion
        return remains
    remains = _looked_at(store, remains, limit)
    if state.phase is Phase.DECLARED and remains.kept is None:
        remains = replace(remains, kept=at_work(store, state.job, now_milliseconds))
    if remains.kept is None:
        left = find_s3a(store, state.job.destination, state.job.job_id, state.job.number)
        # Without pendingsets, it is what tasks of ours have left.
        remains = replace(remains, kept=_LEFT if left is not None and left.manifests else None)
    return remains


def at_work(store: StoreOperations, attempt: JobAttempt, now_milliseconds: int) -> str | None:
    """The reason to keep a declared job: its committer is or may be alive; None if it is dead."""
    try:
        read = partial(read_others, store, attempt, now_milliseconds=now_milliseconds)
        alive = [status for status in until_certain(read) if status.is_alive]
    except (PermissionError, RayCommitterError) as e:
        return problem(e, attempt.directory)
    owners = [status.owner for status in alive]
    return _AT_WORK.format(process=owners[0].process, host=owners[0].host) if owners else None


def _other_remains(store: StoreOperations, status: JobStatus, limit: int) -> Remains:
    """A directory without a job attempt: empty, from the doctor, or not from this protocol."""
    is_empty = not list_directory(store, status.directory)
    remains = _looked_at(store, Remains(status, has_ended=is_empty), limit)
    is_own = status.job.job_id.startswith(DOCTOR_PREFIX) or is_empty
    return remains if is_own or remains.kept is not None else replace(remains, kept=_FOREIGN)


def _looked_at(store: StoreOperations, remains: Remains, limit: int) -> Remains:
    """Count the files; keep the directory if it has, or may have, changed since `limit`."""
    directory = remains.status.job.directory
    try:
        files, changed = store.list_files(directory), _directory_times(store, directory)
    except PermissionError as e:
        return replace(remains, kept=problem(e, directory))
    size = sum(file.size for file in files)
    times = [file.modified_milliseconds for file in files]
    newest = max((*changed, *(time for time in times if time)), default=None)
    counted = replace(remains, files=len(files), bytes=size, newest_milliseconds=newest)
    if newest is None or None in times:
        return replace(counted, kept="the store does not show how old it is")
    if newest >= limit:
        return replace(counted, kept="it has changed recently")
    return counted


def _directory_times(store: StoreOperations, directory: str) -> list[int]:
    """Change times of directories, if the store has them; a task that just began has no files yet."""
    listed = places_of(store).list_job(directory)
    if listed is None:  # otherwise the mark of a directory is an object
        place, tasks = store.get_status(directory), list_directory(store, join(directory, TASKS))
        shared = [
            status.path
            for status in tasks
            if status.name in (STAGED, STAGED_ROOT) and not status.is_link
        ]
        above = (directory, join(directory, MANIFESTS), *shared)
        inner = (status for path in above for status in list_directory(store, path))
        directories = tuple(status for status in (*tasks, *inner) if status.is_directory)
        listed = (place, *directories) if place else directories
    times = (status.modified_milliseconds for status in listed)
    return [time for time in times if time is not None]
