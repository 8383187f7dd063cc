"""Find the job attempt to work on, and the progress of its commit.

Hadoop always gets a job id, but a person on call may know only the destination. Nothing is guessed: two
jobs or two attempts are an error that lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ray_committer.errors import LinkedPathError, RayCommitterError
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.job_files.job_tree import JobTree
from ray_committer.job_files.manifests import list_manifest_files, manifests_in, read_listed
from ray_committer.places.choose import places_of
from ray_committer.protocol.manifest import decode_manifest, stamp_of
from ray_committer.protocol.paths import (
    FROZEN,
    GONE_PREFIX,
    MANIFESTS,
    STATE,
    TASKS,
    UNDONE,
    JobAttempt,
    attempt_number,
    job_id_of_directory,
    join,
    temporary_directory,
)
from ray_committer.protocol.state import UNSTAMPED, Phase
from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import FileStatus, StoreOperations, is_there, only_there

_OWN_NAMES = (MANIFESTS, FROZEN, TASKS, STATE)


@dataclass(frozen=True, slots=True)
class AttemptState:
    """The progress of a job attempt: its state or, if it has none, what is in its directory.

    `manifests` is a listing that was made while the state was read; None if none was made, or it failed.
    `task_attempts` are the names of those with files, if that listing has shown them.
    """

    seen: Seen | None = None
    exists: bool = False
    has_manifests: bool = False
    manifests: tuple[FileStatus, ...] | None = None
    task_attempts: tuple[str, ...] | None = None
    is_husk: bool = False
    """It holds only what a process wrote that slept until the job was removed."""

    @property
    def phase(self) -> Phase | None:
        """The phase; None if the attempt has no state."""
        return self.seen.phase if self.seen else None

    @property
    def is_set_up(self) -> bool:
        """The job has the state that set-up gave it, and not one that a commit gave it."""
        return self.seen is not None and self.seen.state.stamp != UNSTAMPED

    @property
    def is_remnant(self) -> bool:
        """Nothing is left that could be committed."""
        return self.seen is None and not self.has_manifests

    @property
    def is_decided(self) -> bool:
        """The job can no longer be aborted, or was aborted."""
        return self.seen is not None and self.seen.state.is_decided


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A directory below ``_temporary`` and the job attempts in it.

    `closed` is the error if the directory was not read: there is no permission, or it is a symbolic
    link. Then its attempts are not known, and `attempts` is empty. `linked`: attempts that are symbolic
    links. `others`: what else is in it.
    """

    job_id: str
    directory: str
    attempts: tuple[JobAttempt, ...] = ()
    closed: PermissionError | LinkedPathError | None = None
    linked: tuple[JobAttempt, ...] = ()
    others: tuple[FileStatus, ...] = ()

    @property
    def is_link(self) -> bool:
        """Whether the directory is a symbolic link."""
        return isinstance(self.closed, LinkedPathError)

    def opened(self) -> FoundJob:
        """Return this job; raise the error if its directory was not read."""
        if self.closed is not None:
            raise self.closed
        return self


@dataclass(frozen=True, slots=True)
class Temporary:
    """What is in ``$destination/_temporary``, each sorted: `directories`, of jobs and those that were
    taken away from jobs, and symbolic `links`, which are not followed."""

    directories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def read_attempt_state(store: StoreOperations, job: JobAttempt) -> AttemptState:
    """Read the job attempt's state, and list its directory only if it has none; `LinkedPathError` if it
    is behind a symbolic link."""
    _refuse_linked_attempt(store, job)
    seen = read_state(store, job)
    return _listed_state(store, job) if seen is None else _state_of(seen)


def read_state_and_manifests(
    store: StoreOperations, job: JobAttempt, tree: JobTree | None = None
) -> AttemptState:
    """`read_attempt_state` and, in parallel where requests have to be waited for, list the manifests,
    unless the `tree` of the job's files is known.

    The listing counts only for a job that has a state: it is compared again after the manifests are
    frozen. For a job without a state, the manifests that late tasks have left do not count.
    """
    if tree is not None and (seen := read_state(store, job)) is not None:
        return replace(
            _state_of(seen), manifests=tree.manifests(job), task_attempts=tree.task_attempts(job)
        )
    if store.capabilities.renames_are_local:
        return without_late(store, job, read_attempt_state(store, job))
    _refuse_linked_attempt(store, job)
    with ThreadPoolExecutor(max_workers=1) as pool:
        listing = pool.submit(_manifests_if_any, store, job)
        seen = read_state(store, job)
    if seen is None:
        return without_late(store, job, _listed_state(store, job), listing.result())
    return replace(_state_of(seen), manifests=listing.result())


def without_late(
    store: StoreOperations,
    job: JobAttempt,
    state: AttemptState,
    listed: Sequence[FileStatus] | None = None,
) -> AttemptState:
    """`state` but, for a job that has no state, without manifests that late tasks left: they were all
    written for a job that had a state, so that job has ended. `listed` is a listing of the manifests."""
    if state.seen is not None or not state.has_manifests:
        return state
    try:
        found = list_manifest_files(store, job) if listed is None else manifests_in(listed)
        is_late = bool(found) and all(_stamp(store, one) for one in found)
    except (FileNotFoundError, NotADirectoryError):
        return state
    return replace(state, has_manifests=not is_late)


def _stamp(store: StoreOperations, status: FileStatus) -> str | None:
    return stamp_of(decode_manifest(read_listed(store, status), status.path))


def _manifests_if_any(store: StoreOperations, job: JobAttempt) -> tuple[FileStatus, ...] | None:
    try:
        return tuple(store.list_status(job.manifests))
    except (OSError, RayCommitterError):
        return None


def _refuse_linked_attempt(store: StoreOperations, job: JobAttempt) -> None:
    own = (join(job.directory, name) for name in _OWN_NAMES)
    refuse_links(store, (job.temporary, job.job_directory, job.directory, *own))


def _state_of(seen: Seen) -> AttemptState:
    return AttemptState(seen, exists=True, has_manifests=True)


def _listed_state(store: StoreOperations, job: JobAttempt) -> AttemptState:
    try:
        names = {one.name for one in only_there(store, store.list_exact(job.directory))}
    except (FileNotFoundError, NotADirectoryError):
        return AttemptState()
    if not names and not is_there(store, FileStatus(job.directory, is_directory=True)):
        return AttemptState()
    manifests = {path.rpartition("/")[2] for path in places_of(store).manifests(job)}
    return AttemptState(
        exists=True,
        has_manifests=not names.isdisjoint(manifests),
        is_husk=bool(names) and names <= {STATE, UNDONE},
    )


def refuse_links(store: StoreOperations, paths: Iterable[str]) -> None:
    """`LinkedPathError` if one of `paths` is a symbolic link; its target does not belong to the job."""
    if (link := store.first_link(paths)) is not None:
        raise linked_path(link)


def linked_path(path: str) -> LinkedPathError:
    """The error for a symbolic link in the place of a job's directory."""
    return LinkedPathError(
        f"{path}: is a symbolic link, and what is behind it may belong to others, so nothing was done",
        "look where it leads, remove the link, and run the same command",
        filename=path,
    )


def not_read(error: PermissionError | LinkedPathError, path: str) -> str:
    """The text about a file or directory that was not read, which is at `path` if the error names no
    other."""
    if isinstance(error, LinkedPathError):
        return skipped_link(error.filename or path)
    return f"{error.filename or path}: no permission to read it"


def skipped_link(path: str) -> str:
    """The text about a symbolic link in the place of a directory."""
    return f"{path}: is a symbolic link, which was not followed"


def list_job_directories(store: StoreOperations, destination: str) -> list[FoundJob]:
    """The jobs below ``$destination/_temporary``, and the links in their place as closed jobs."""
    return jobs_and_links(store, destination, list_temporary(store, destination))


def jobs_and_links(store: StoreOperations, destination: str, found: Temporary) -> list[FoundJob]:
    """`list_job_directories` for what `list_temporary` has found."""
    links = [FoundJob(link.rpartition("/")[2], link, closed=linked_path(link)) for link in found.links]
    shown = [FileStatus(path, is_directory=True) for path in found.directories]
    jobs = jobs_in(store, destination, [one.path for one in only_there(store, shown)])
    return sorted((*jobs, *links), key=lambda job: job.directory)


def list_temporary(store: StoreOperations, destination: str) -> Temporary:
    """List ``$destination/_temporary``."""
    temporary = temporary_directory(destination)
    refuse_links(store, (temporary,))
    try:
        found = store.list_exact(temporary)
    except (FileNotFoundError, NotADirectoryError):
        return Temporary()
    directories = sorted(one.path for one in found if one.is_directory and not one.is_link)
    return Temporary(tuple(directories), tuple(sorted(one.path for one in found if one.is_link)))


def jobs_in(store: StoreOperations, destination: str, directories: Sequence[str]) -> list[FoundJob]:
    """The jobs in those of these `directories` below ``$destination/_temporary`` that still exist."""
    own = [one for one in directories if not one.rpartition("/")[2].startswith(GONE_PREFIX)]
    names = {directory.rpartition("/")[2] for directory in own}

    def find(directory: str) -> FoundJob | None:
        return job_in(store, destination, directory, _job_id(directory.rpartition("/")[2], names))

    return [job for job in at_once(store, find, own, least=MANY) if job is not None]


def _job_id(name: str, names: Collection[str]) -> str:
    """The id of the job in the directory `name` below ``_temporary``, which holds all these `names`.

    In Hadoop's documentation the name has a prefix. If the name without the prefix is also there, the
    whole name is a job's id.
    """
    documented = job_id_of_directory(name)
    return name if documented in names else documented


def job_in(store: StoreOperations, destination: str, directory: str, job_id: str) -> FoundJob | None:
    """The job in a directory; None if the directory does not exist, or no longer does."""
    try:
        statuses = store.list_exact(directory)
    except FileNotFoundError:
        return None
    except PermissionError as e:
        return FoundJob(job_id, directory, closed=e)
    attempts, linked, others = list[JobAttempt](), list[JobAttempt](), list[FileStatus]()
    for status in statuses:
        number = attempt_number(status.name)
        if number is not None and (status.is_directory or status.is_link):
            attempt = JobAttempt(destination, job_id, number, status.path)
            (linked if status.is_link else attempts).append(attempt)
        else:
            others.append(status)
    return FoundJob(
        job_id, directory, _by_number(attempts), linked=_by_number(linked), others=tuple(others)
    )


def _by_number(attempts: Iterable[JobAttempt]) -> tuple[JobAttempt, ...]:
    return tuple(sorted(attempts, key=lambda attempt: attempt.number))


def list_attempts(store: StoreOperations, job: JobAttempt) -> tuple[JobAttempt, ...]:
    """All attempts of the job of `job`, this one included, by number; `LinkedPathError` if one is a
    symbolic link, because then it is not known whether that one was committed."""
    found = job_in(store, job.destination, job.job_directory, job.job_id)
    if found is None:
        return ()
    if found.linked:
        raise linked_path(found.linked[0].directory)
    return found.opened().attempts


def goes_on(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether another attempt of this job has not been aborted."""
    phases = (
        read_attempt_state(store, other).phase
        for other in list_attempts(store, job)
        if other.number != job.number
    )
    return any(phase is not Phase.ABORTED for phase in phases)
