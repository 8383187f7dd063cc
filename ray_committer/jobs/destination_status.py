"""The state of a destination: its last commit, the jobs there, and what other committers have left."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import gone_in, jobs_listed, list_temporary, problem
from ray_committer.job_files.others import state_inside
from ray_committer.jobs.list_jobs import InLog, JobSummary, look_again, seconds_since, summaries
from ray_committer.jobs.open_job import StorageOptions, open_here, require_destination
from ray_committer.jobs.past_commits import PastCommit, last_commit
from ray_committer.options import CommitOptions
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.other_committers import (
    TASK_PREFIX,
    LeftBy,
    left_at_destination,
    left_in_temporary,
)
from ray_committer.protocol.paths import SUCCESS, TEMPORARY, JobAttempt
from ray_committer.protocol.state import UNFINISHED
from ray_committer.protocol.table_paths import DIRECTORY
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import FileStatus, StoreOperations, is_there
from ray_committer.stores.registry import shown_url
from ray_committer.stores.uploads import upload_pages


@dataclass(frozen=True, slots=True)
class Leftover:
    """Directories of one kind that hold no job of this committer.

    left_by: who makes such directories: see `LeftBy`.
    paths: the directories, as URLs or local paths; for uploads, their files.
    tasks: how many tasks have committed there; None if that is not known.
    age_seconds: since the newest change that a listing shows; None if it shows none.
    command: the command that removes it, or shows more; None if there is none.
    """

    left_by: str
    paths: tuple[str, ...]
    tasks: int | None = None
    age_seconds: float | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class DestinationStatus:
    """What `ray-committer status` shows.

    holds: "nothing", "data" without ``_SUCCESS``, "committed" data, which has ``_SUCCESS`` or is in the
        log of a table, or "unknown" if there is no permission to list the destination.
    last_commit: the last one, as ``_SUCCESS`` or the log says; None if nothing says one.
    table_version: the last version of the table; None if the destination has no log.
    problem: why something was not read.
    """

    destination: str
    holds: str
    last_commit: PastCommit | None
    table_version: int | None
    jobs: tuple[JobSummary, ...]
    leftovers: tuple[Leftover, ...]
    problem: str | None = None


def destination_status(
    dest: str,
    *,
    exact: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> DestinationStatus:
    """Return the state of a destination, and change nothing.

    This costs a listing of the destination's first level, a read of ``_SUCCESS``, about ten requests if
    it is a table with a log, and the requests of `list_jobs`: of its directories, only ``_temporary``
    and the log are looked into. `JobNotFoundError` if the destination is missing.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        threads = options.threads if exact else None
        return look_again(partial(_look, store, destination, dest, threads))


def _look(
    store: StoreOperations, destination: str, dest: str, threads: int | None, is_last: bool
) -> DestinationStatus:
    listed, problem = _first_level(store, destination)
    names = None if listed is None else {status.name: status for status in listed}
    here = _Here(store, destination, names)
    temporary = list_temporary(store, destination) if here.has(TEMPORARY) else []
    jobs_here = jobs_listed(store, destination, temporary)
    in_log = InLog(store, destination) if here.has(DIRECTORY) else None
    jobs = summaries(store, destination, dest, jobs_here, in_log, threads=threads, is_last=is_last)
    last, log_problem = here.last_commit(in_log)
    vacuum = shlex.join(["ray-committer", "vacuum", without_password(dest)])
    uploads, uploads_problem = here.uploads(vacuum) if not jobs else ((), None)
    return DestinationStatus(
        shown_url(store.spec, destination),
        _holds(store, names, last),
        last,
        in_log.version if in_log else None,
        tuple(jobs),
        (*here.leftovers(temporary, jobs_here, vacuum), *uploads),
        problem or log_problem or uploads_problem,
    )


def _first_level(store: StoreOperations, destination: str) -> tuple[list[FileStatus] | None, str | None]:
    """What is in the destination itself; None, and why, if that is not known."""
    try:
        return store.list_anew(destination), None
    except (FileNotFoundError, NotADirectoryError):
        require_destination(store, destination)
        return [], None
    except PermissionError as e:
        return None, problem(e, destination)


@dataclass(frozen=True, slots=True)
class _Here:
    """A destination and the names in it, None if they are not known."""

    store: StoreOperations
    destination: str
    names: dict[str, FileStatus] | None

    def has(self, name: str) -> bool:
        """Whether a name is, or may be, in the destination."""
        return self.names is None or name in self.names

    def last_commit(self, in_log: InLog | None) -> tuple[PastCommit | None, str | None]:
        """The last commit, and why it is not known."""
        path = f"{self.destination.rstrip('/')}/{SUCCESS}"
        success = (self.names or {}).get(SUCCESS)
        if success is None and self.has(TEMPORARY):  # a job may have ended since the listing
            success = FileStatus(path, is_directory=False)
        is_table = in_log is not None and in_log.version is not None
        try:
            return last_commit(self.store, self.destination, success, is_table=is_table), (
                in_log.problem if in_log else None
            )
        except (RayCommitterError, PermissionError) as e:
            noted = last_commit(self.store, self.destination, success, is_table=False)
            return noted, f"the log of the table cannot be read: {e}"

    def leftovers(
        self, temporary: Sequence[FileStatus], jobs_here: Sequence[JobStatus], vacuum: str
    ) -> Iterator[Leftover]:
        """What other committers have left, or clean-ups that were stopped; `vacuum` is a command."""
        for job in jobs_here:
            if not job.is_attempt and job.closed is None:
                yield self._of_directory(job, vacuum)
        gone = gone_in(self.destination, temporary)
        mislaid = list(filter(self._is_unfinished, gone))
        ended = [attempt for attempt in gone if attempt not in mislaid]
        is_gone = ((LeftBy.MISLAID, mislaid, f"{vacuum} --dry-run"), (LeftBy.CLEAN_UP, ended, vacuum))
        for left_by, attempts, command in is_gone:
            if attempts:
                paths = self._shown(attempt.directory for attempt in attempts)
                yield Leftover(left_by, paths, command=command)
        for kind in (LeftBy.SPARK_STAGING, LeftBy.HIVE_STAGING):
            here = (self.names or {}).values()
            staging = [status for status in here if left_at_destination(status.name) is kind]
            if staging:
                paths = self._shown(sorted(status.path for status in staging))
                yield Leftover(kind, paths, age_seconds=_age(staging))

    def _is_unfinished(self, gone: JobAttempt) -> bool:
        """Whether a directory that was taken away holds a job whose commit has begun and not ended."""
        state = None
        with suppress(RayCommitterError, PermissionError):
            state = state_inside(self.store, gone)
        return state is not None and state.phase in UNFINISHED

    def uploads(self, vacuum: str) -> tuple[tuple[Leftover, ...], str | None]:
        """The first uploads that are pending, and why they are not known."""
        try:
            uploads = next(upload_pages(self.store, self.destination), [])
        except PermissionError:
            return (), f"{self.destination}: no permission to list pending uploads"
        paths = self._shown(upload.path for upload in uploads)
        left = Leftover(LeftBy.UPLOADS, paths, command=f"{vacuum} --dry-run")
        return (left,) if uploads else (), None

    def _of_directory(self, job: JobStatus, vacuum: str) -> Leftover:
        name = job.directory.rpartition("/")[2]
        kind = left_in_temporary(name, is_empty=not job.inside)
        tasks = sum(status.is_directory and status.name.startswith(TASK_PREFIX) for status in job.inside)
        return Leftover(
            kind,
            self._shown([job.directory]),
            tasks if kind is LeftBy.FILE_OUTPUT_COMMITTER else None,
            _age(job.inside),
            vacuum if kind is LeftBy.NOTHING else None,
        )

    def _shown(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(shown_url(self.store.spec, path) for path in paths)


def _age(statuses: Iterable[FileStatus]) -> float | None:
    times = (status.modified_milliseconds for status in statuses)
    newest = max((at for at in times if at is not None), default=None)
    return seconds_since(time.time(), newest)


def _holds(store: StoreOperations, names: dict[str, FileStatus] | None, last: PastCommit | None) -> str:
    if last is not None:
        return "committed"
    if names is None:
        return "unknown"
    shown = (status for name, status in names.items() if not is_hidden(name))
    return "data" if any(is_there(store, status) for status in shown) else "nothing"
