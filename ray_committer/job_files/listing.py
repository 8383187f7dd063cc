"""List the jobs at a destination: the one place that knows what the names below ``_temporary`` say.

A listing shows where jobs are, and nothing of their states. It makes a `JobStatus` of each attempt, of
each symbolic link, which is not followed, and of each directory in which no attempt is seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ray_committer.errors import AmbiguousJobError, LinkedPathError, RayCommitterError, mark, shown, why
from ray_committer.job_files.job_status import Committer, JobStatus
from ray_committer.places.choose import output_of
from ray_committer.protocol.magic_paths import MAGIC, MagicJob, magic_job_of
from ray_committer.protocol.paths import (
    DOCUMENTED_PREFIX,
    GONE_PREFIX,
    STAGED,
    STAGED_ROOT,
    JobAttempt,
    attempt_number,
    job_id_of_directory,
    join,
    new_job_attempt,
    temporary_directory,
)
from ray_committer.protocol.staging import is_staged
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import FileStatus, StoreOperations, only_there
from ray_committer.stores.links import linked_path, refuse_links
from ray_committer.work.sources import list_directory


def not_read(error: PermissionError | RayCommitterError, path: str) -> str:
    """The text about what was not read, which is at `path` if the error names no other."""
    if isinstance(error, LinkedPathError):
        return f"{mark(error.filename or path)}: is a symbolic link, which was not followed"
    if isinstance(error, PermissionError):
        return f"{mark(error.filename or path)}: no permission to read it"
    return why(error)


def problem(error: PermissionError | RayCommitterError, path: str) -> str:
    """The text of `not_read` as a field of a value."""
    return shown(not_read(error, path))


def list_temporary(store: StoreOperations, destination: str) -> list[FileStatus]:
    """List the directories and the symbolic links in ``$destination/_temporary``, sorted."""
    temporary = temporary_directory(destination)
    refuse_links(store, (temporary,))
    try:
        listed = store.list_exact(temporary)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        (status for status in listed if status.is_directory or status.is_link),
        key=lambda status: status.path,
    )


def jobs_at(store: StoreOperations, destination: str) -> list[JobStatus]:
    """The jobs below ``$destination/_temporary``, sorted by directory and attempt."""
    return jobs_listed(store, destination, list_temporary(store, destination))


def jobs_listed(
    store: StoreOperations, destination: str, listed: Sequence[FileStatus]
) -> list[JobStatus]:
    """`jobs_at` for what `list_temporary` has listed; directories that are only listed do not count."""
    return jobs_in(store, destination, only_there(store, listed))


def jobs_in(store: StoreOperations, destination: str, listed: Sequence[FileStatus]) -> list[JobStatus]:
    """The jobs in the `listed` directories that still exist, by one listing of each, and the
    links in their place; not those that were taken away."""
    directories = [
        status for status in listed if status.is_link or not status.name.startswith(GONE_PREFIX)
    ]
    # Of all directories: whether a prefix belongs to the name depends on what is beside it.
    names = {status.name for status in directories if not status.is_link}

    def look(status: FileStatus) -> tuple[JobStatus, ...]:
        # A link is never followed: what is behind it can be another job's, or another user's (R17).
        if status.is_link:
            place = JobAttempt(destination, status.name, 0, status.path)
            return (JobStatus(place, Committer.UNKNOWN, closed=linked_path(status.path)),)
        return jobs_of(store, destination, status.path, _job_id(status.name, names))

    return [job for jobs in at_once(store, look, directories, least=MANY) for job in jobs]


def _job_id(name: str, names: Collection[str]) -> str:
    """The id of the job in the directory `name` below ``_temporary``, which holds all these `names`. In
    Hadoop's documentation the name has a prefix. If both are there, each is an id."""
    documented = job_id_of_directory(name)
    return name if documented in names else documented


def jobs_of(
    store: StoreOperations, destination: str, directory: str, job_id: str
) -> tuple[JobStatus, ...]:
    """The attempts in the directory of a job, by number, and the links in the place of some; that
    directory itself if it has none, or is closed; empty if it does not exist, or no longer does."""
    whole = JobStatus(JobAttempt(destination, job_id, 0, directory), Committer.UNKNOWN)
    try:
        listed = store.list_exact(directory)
    except FileNotFoundError:
        return ()
    except PermissionError as e:
        return (replace(whole, closed=e),)
    by_name = {status.name: status for status in listed if status.is_directory or status.is_link}
    links = {status.path: linked_path(status.path) for status in by_name.values() if status.is_link}
    attempts = attempts_named(destination, job_id, directory, by_name)
    return tuple(JobStatus(attempt, closed=links.get(attempt.directory)) for attempt in attempts) or (
        replace(whole, inside=tuple(listed)),
    )


def attempts_named(
    destination: str, job_id: str, directory: str, names: Iterable[str]
) -> tuple[JobAttempt, ...]:
    """The attempts of a job, by number, that some `names` in its directory stand for."""
    numbered = [(number, name) for name in names if (number := attempt_number(name)) is not None]
    return tuple(
        JobAttempt(destination, job_id, number, join(directory, name))
        for number, name in sorted(numbered)
    )


def gone_in(destination: str, listed: Iterable[FileStatus]) -> list[JobAttempt]:
    """The `listed` directories that were taken away; only their content shows which job's they are."""
    names = (status.name for status in listed if not status.is_link)
    nonces = (name.removeprefix(GONE_PREFIX) for name in names if name.startswith(GONE_PREFIX))
    return [new_job_attempt(destination, GONE_PREFIX + nonce, 0).gone(nonce) for nonce in nonces]


def may_hold(listed: Sequence[FileStatus], job_ids: Collection[str]) -> list[FileStatus]:
    """The `listed` directories that can hold a job with one of these ids, or are taken away."""
    return [
        status
        for status in listed
        if status.name.startswith(GONE_PREFIX)
        or not {status.name, job_id_of_directory(status.name)}.isdisjoint(job_ids)
    ]


def in_directories(jobs: Iterable[JobStatus]) -> dict[str, list[JobStatus]]:
    """Some jobs by the directory below ``_temporary`` that they are in, in order."""
    by_directory: dict[str, list[JobStatus]] = {}
    for job in jobs:
        by_directory.setdefault(job.directory, []).append(job)
    return by_directory


def readable(jobs: Iterable[JobStatus]) -> Iterator[JobAttempt]:
    """The attempts among some jobs; raise the error of a directory that was not read, because its
    attempts are not known. Links in the place of attempts do not count."""
    for status in jobs:
        if status.is_open:
            yield status.job
        elif not status.is_attempt:
            status.opened()


def named(jobs: Iterable[JobStatus], job_id: str) -> list[JobStatus]:
    """Of some jobs, those in the one directory that is meant by an id: under its name or, if there is
    none, under the name in Hadoop's documentation."""
    by_name = {path.rpartition("/")[2]: group for path, group in in_directories(jobs).items()}
    meant = by_name.get(job_id) or by_name.get(DOCUMENTED_PREFIX + job_id) or []
    return [replace(status, job=replace(status.job, job_id=job_id)) for status in meant]


def find_documented_attempt(store: StoreOperations, job: JobAttempt) -> JobAttempt | None:
    """The same attempt under the directory name of Hadoop's documentation, if it is there."""
    directory = join(job.temporary, DOCUMENTED_PREFIX + job.job_id)
    refuse_links(store, (directory,))
    attempts = readable(jobs_of(store, job.destination, directory, job.job_id))
    return next((attempt for attempt in attempts if attempt.number == job.number), None)


def list_attempts(store: StoreOperations, job: JobAttempt) -> tuple[JobAttempt, ...]:
    """All attempts of the job of `job`, this one included, by number; `LinkedPathError` if one is a
    symbolic link, because then it is not known whether that one was committed."""
    statuses = jobs_of(store, job.destination, job.job_directory, job.job_id)
    return tuple(status.job for status in statuses if status.opened().is_attempt)


def list_s3a(store: StoreOperations, destination: str) -> list[str]:
    """The ids of all jobs that Hadoop's S3A committer left at a destination, sorted; two requests."""
    places: list[FileStatus] = []
    for status in list_magic(store, destination):
        places += (list_if_there(store, status.path) or ()) if status.name == MAGIC else [status]
    jobs = (magic_job_of(store.spec.authority, destination, place.path) for place in places)
    return sorted({job.uuid for job in jobs if job is not None})


def s3a_attempts(store: StoreOperations, destination: str, job_id: str) -> list[JobStatus]:
    """The attempts of a job that Hadoop's S3A committer left, in either layout, by number, with their
    pendingsets; empty if there is none. Nothing shows whether its driver lives."""
    magic = MagicJob(store.spec.authority, destination, job_id)
    directories = output_of(store).uploading(magic.directories)
    every_listing = ((directory, list_if_there(store, directory)) for directory in directories)
    listed = {directory: entries for directory, entries in every_listing if entries is not None}
    if not listed:
        return []
    every = [entry for entries in listed.values() for entry in entries]
    inner = [entry for entry in every if entry.is_directory and attempt_number(entry.name) is not None]
    every += [entry for place in inner for entry in list_if_there(store, place.path) or ()]
    by_attempt: dict[int, list[FileStatus]] = {attempt_number(entry.name) or 0: [] for entry in inner}
    for entry in every:
        place = None if entry.is_directory else magic.place_of(entry.path)
        if place is not None and place.task_id is not None:
            by_attempt.setdefault(place.attempt, []).append(entry)
    directory = next(iter(listed))
    return [
        JobStatus(
            JobAttempt(destination, job_id, number, directory), Committer.S3A, manifests=tuple(files)
        )
        for number, files in sorted((by_attempt or {0: []}).items())
    ]


def find_s3a(
    store: StoreOperations, destination: str, job_id: str, number: int | None
) -> JobStatus | None:
    """Find a job that Hadoop's S3A committer left; None if there is none. `AmbiguousJobError` if it has
    several attempts with pendingsets and none is named."""
    attempts = s3a_attempts(store, destination, job_id)
    if not attempts:
        return None
    if number is not None:
        none = replace(attempts[0], job=replace(attempts[0].job, number=number), manifests=())
        return next((attempt for attempt in attempts if attempt.job.number == number), none)
    live = [attempt for attempt in attempts if attempt.manifests] or attempts
    if len(live) > 1:
        numbers = [attempt.job.number for attempt in live]
        raise AmbiguousJobError(
            f"{mark(live[0].job.directory)}: has the attempts {numbers}", "name one with --attempt"
        )
    return live[0]


def list_magic(store: StoreOperations, destination: str) -> list[FileStatus]:
    """The directories of Hadoop's S3A committer at a destination."""
    places = output_of(store).uploading((join(destination, MAGIC),))
    statuses = (status for place in places for status in store.list_prefix(place))
    return [status for status in statuses if status.is_directory]


def task_directories(
    store: StoreOperations, tasks: str, *, anew: bool = False
) -> tuple[list[str], list[str]]:
    """The directories in which the tasks of a job write, by their paths: of each attempt its own one,
    and those that attempts share. What is behind a link is left out; `anew` as `list_directory`."""

    def directories(path: str) -> list[str]:
        statuses = list_directory(store, path, anew=anew)
        return [status.path for status in statuses if status.is_directory and not status.is_link]

    above = {join(tasks, STAGED), join(tasks, STAGED_ROOT)}
    listed = directories(tasks)
    shared = [path for directory in listed if directory in above for path in directories(directory)]
    return [path for path in listed if path not in above], [
        path for path in shared if is_staged(path, tasks)
    ]


def list_if_there(store: StoreOperations, directory: str) -> Sequence[FileStatus] | None:
    """What is in a directory, and marks of directories; None if it does not exist."""
    with suppress(FileNotFoundError):
        return store.list_exact(directory)
    return None
