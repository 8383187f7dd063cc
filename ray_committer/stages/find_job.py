"""Find the job attempt to work on, and how far its commit got.

Hadoop is always told; a person at night may know only the destination. Nothing is guessed: two jobs
or two attempts are an error that lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ray_committer.errors import (
    AmbiguousJobError,
    CommitRecordExistsError,
    JobNotFoundError,
    LinkedPathError,
)
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import (
    COMMIT_POINT,
    COMMIT_RECORD,
    DOCUMENTED_PREFIX,
    MANIFEST_SUFFIX,
    MANIFESTS,
    REPLACES_DATA,
    TASKS,
    JobAttempt,
    attempt_number,
    job_id_of_directory,
    join,
    new_job_attempt,
    temporary_directory,
)
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stores.base import FileStatus, StoreOperations, first_link

_OWN_NAMES = (MANIFESTS, TASKS, COMMIT_RECORD, COMMIT_POINT, REPLACES_DATA)


@dataclass(frozen=True, slots=True)
class AttemptState:
    """What is in a job attempt's directory, from one listing."""

    exists: bool
    has_manifests: bool
    has_tasks: bool
    has_record: bool
    has_commit_point: bool
    replaces_data: bool = False

    @property
    def is_remnant(self) -> bool:
        """Nothing is left that could be committed."""
        return not (self.has_manifests or self.has_record or self.has_commit_point)

    @property
    def is_decided(self) -> bool:
        """A commit record exists, so the job may no longer be aborted."""
        return self.has_record or self.has_commit_point


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A directory below ``_temporary`` and the job attempts in it."""

    job_id: str
    directory: str
    attempts: tuple[JobAttempt, ...]


def read_attempt_state(store: StoreOperations, job: JobAttempt) -> AttemptState:
    """List the job attempt directory once; `LinkedPathError` if it is behind a symbolic link."""
    refuse_links(store, (job.temporary, job.job_directory, job.directory))
    try:
        listed = store.list_status(job.directory)
    except (FileNotFoundError, NotADirectoryError):
        return AttemptState(False, False, False, False, False)
    for status in listed:
        if status.is_link and status.name in _OWN_NAMES:
            raise _is_link(status.path)
    return attempt_state(listed)


def refuse_links(store: StoreOperations, paths: Iterable[str]) -> None:
    """`LinkedPathError` if one of `paths` is a symbolic link; what is behind one is not the job's."""
    if (link := first_link(store, paths)) is not None:
        raise _is_link(link)


def _is_link(path: str) -> LinkedPathError:
    return LinkedPathError(
        f"{path}: is a symbolic link, and what is behind it may belong to others, so nothing was done; "
        f"look where it leads, remove the link, and run the same command"
    )


def attempt_state(listed: Iterable[FileStatus]) -> AttemptState:
    """What a listing of the job attempt directory tells."""
    names = {status.name for status in listed}
    return AttemptState(
        exists=True,
        has_manifests=MANIFESTS in names,
        has_tasks=TASKS in names,
        has_record=COMMIT_RECORD in names,
        has_commit_point=COMMIT_POINT in names,
        replaces_data=REPLACES_DATA in names,
    )


def estimate_files(store: StoreOperations, job: JobAttempt) -> int:
    """About how many files a job has: by the size of its manifests and the content of the largest."""
    try:
        found = [one for one in store.list_status(job.manifests) if one.name.endswith(MANIFEST_SUFFIX)]
        largest = max(found, key=lambda one: one.size, default=None)
        if largest is None or not largest.size:
            return 0
        manifest = decode_manifest(store.read(largest.path), largest.path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return round(sum(one.size for one in found) / largest.size * len(manifest.files))


def list_job_directories(store: StoreOperations, destination: str) -> list[FoundJob]:
    """The jobs below ``$destination/_temporary``; empty if there are none, and none behind links."""
    temporary = temporary_directory(destination)
    refuse_links(store, (temporary,))
    try:
        found = store.list_status(temporary)
    except (FileNotFoundError, NotADirectoryError):
        return []
    directories = sorted(status.path for status in found if status.is_directory and not status.is_link)
    names = {directory.rpartition("/")[2] for directory in directories}
    jobs = [
        _found_job(store, destination, directory, _job_id(directory.rpartition("/")[2], names))
        for directory in directories
    ]
    return [job for job in jobs if job is not None]


def _job_id(name: str, names: Collection[str]) -> str:
    """The job that a directory below ``_temporary`` stands for, where `names` are beside each other.

    That of Hadoop's documentation has a prefix; beside one without it, it is a job's own name.
    """
    documented = job_id_of_directory(name)
    return name if documented in names else documented


def list_links(store: StoreOperations, destination: str) -> list[str]:
    """The symbolic links below ``$destination/_temporary`` that stand where jobs should."""
    if not store.capabilities.has_links:
        return []
    try:
        found = store.list_status(temporary_directory(destination))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(status.path for status in found if status.is_link)


def _found_job(store: StoreOperations, destination: str, directory: str, job_id: str) -> FoundJob | None:
    """The job in a directory; None if it is not there, or no more."""
    attempts = []
    try:
        statuses = store.list_status(directory)
    except FileNotFoundError:
        return None
    for status in statuses:
        number = attempt_number(status.name)
        if status.is_directory and not status.is_link and number is not None:
            attempts.append(JobAttempt(destination, job_id, number, status.path))
    return FoundJob(job_id, directory, tuple(sorted(attempts, key=lambda attempt: attempt.number)))


def find_job_attempt(
    store: StoreOperations, destination: str, job_id: str | None, number: int | None
) -> JobAttempt:
    """Find the one attempt of the one job that is meant.

    With both `job_id` and `number` this needs no request; the attempt may then not exist.
    `JobNotFoundError`, or `AmbiguousJobError` when several qualify; an older attempt whose commit
    has begun refuses a newer one.
    """
    if job_id is not None and number is not None:
        return new_job_attempt(destination, job_id, number)
    job = _find_job(store, destination, job_id)
    return _choose_attempt(job, number, destination)


def find_documented_attempt(store: StoreOperations, job: JobAttempt) -> JobAttempt | None:
    """The same attempt under the directory name of Hadoop's documentation, if it is there."""
    directory = join(job.temporary, DOCUMENTED_PREFIX + job.job_id)
    found = _found_job(store, job.destination, directory, job.job_id)
    attempts = found.attempts if found else ()
    return next((attempt for attempt in attempts if attempt.number == job.number), None)


def confirm_documented(store: StoreOperations, job: JobAttempt) -> None:
    """`JobNotFoundError` if a directory that may be named as in Hadoop's documentation is another job's.

    Its manifests say whose it is; that of any other name needs no request.
    """
    name = job.job_directory.rpartition("/")[2]
    if name == job.job_id:
        return
    said = _job_id_of_manifests(store, job)
    if said != job.job_id:
        what = (
            f"is of job {said}" if said else "may be of a job of that name: no manifest says whose it is"
        )
        raise JobNotFoundError(
            f"{job.job_directory}: {what}, so it is not taken for job {job.job_id}; nothing was done. "
            f"To mean that directory, name the job {said or name}"
        )


def _job_id_of_manifests(store: StoreOperations, job: JobAttempt) -> str | None:
    try:
        for status in store.list_status(job.manifests):
            if status.name.endswith(MANIFEST_SUFFIX):
                return decode_manifest(store.read(status.path), status.path).job_id
    except (FileNotFoundError, NotADirectoryError):
        pass
    return None


def refuse_if_other_attempt_is_decided(store: StoreOperations, job: JobAttempt) -> None:
    """`CommitRecordExistsError` if the commit of another attempt of this job has begun."""
    found = _found_job(store, job.destination, job.job_directory, job.job_id)
    for other in found.attempts if found else ():
        if other.number != job.number and read_attempt_state(store, other).is_decided:
            raise CommitRecordExistsError(
                f"{other.directory}: the commit of attempt {other.number} of job {job.job_id} has "
                f"begun; finish it first with --attempt {other.number}"
            )


def read_success(store: StoreOperations, destination: str) -> SuccessData | None:
    """The destination's ``_SUCCESS``, or None if there is none or only the classic empty one."""
    path = join(destination, "_SUCCESS")
    try:
        return decode_success(store.read(path), path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _find_job(store: StoreOperations, destination: str, job_id: str | None) -> FoundJob:
    jobs = list_job_directories(store, destination)
    if job_id is not None:
        by_name = {job.directory.rpartition("/")[2]: job for job in jobs}
        named = by_name.get(job_id) or by_name.get(DOCUMENTED_PREFIX + job_id)
        if named is None:
            raise JobNotFoundError(_not_found(store, destination, job_id))
        return _called(named, job_id)
    live = [job for job in jobs if job.attempts] or jobs
    if not live:
        raise JobNotFoundError(_not_found(store, destination, None))
    if len(live) > 1:
        raise AmbiguousJobError(
            f"{temporary_directory(destination)}: holds {len(live)} jobs "
            f"({', '.join(job.job_id for job in live)}); name one with --job-id"
        )
    return live[0]


def _called(job: FoundJob, job_id: str) -> FoundJob:
    attempts = tuple(replace(attempt, job_id=job_id) for attempt in job.attempts)
    return replace(job, job_id=job_id, attempts=attempts)


def _choose_attempt(job: FoundJob, number: int | None, destination: str) -> JobAttempt:
    if number is not None:
        for attempt in job.attempts:
            if attempt.number == number:
                return attempt
        raise JobNotFoundError(
            f"{job.directory}: has no attempt {number}, only "
            f"{[attempt.number for attempt in job.attempts]}"
        )
    if len(job.attempts) > 1:
        raise AmbiguousJobError(
            f"{job.directory}: has the attempts {[attempt.number for attempt in job.attempts]}; "
            f"name one with --attempt"
        )
    return job.attempts[0] if job.attempts else new_job_attempt(destination, job.job_id, 0)


def _not_found(store: StoreOperations, destination: str, job_id: str | None) -> str:
    status = store.get_status(destination)
    if status is None:
        return f"{destination}: does not exist; check the destination's spelling"
    if not status.is_directory:
        return f"{destination}: is a file; name the directory that the job wrote to"
    others = [job.job_id for job in list_job_directories(store, destination)]
    what = f"no job {job_id}" if job_id else "no job"
    if others:
        return f"{temporary_directory(destination)}: holds {what}; its jobs are {', '.join(others)}"
    return (
        f"{temporary_directory(destination)}: holds {what} to commit; if there was one, it has "
        f"ended, or another job's clean-up has deleted it"
    )
