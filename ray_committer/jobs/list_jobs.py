"""The jobs below a destination, and the progress of their commits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.commands import ENDS, UNDO, job_command
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import jobs_at, list_s3a, problem, s3a_attempts
from ray_committer.job_files.others import until_certain
from ray_committer.job_files.read_job import read_others
from ray_committer.jobs.open_job import StorageOptions, open_here, require_destination
from ray_committer.jobs.survey_jobs import Survey, survey_exactly, survey_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Heartbeat
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.jobs_in_log import JobsInLog, read_jobs_in_log

T = TypeVar("T")
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job attempt below ``$dest/_temporary``, or a directory there that was not examined, because it
    cannot be read or is a symbolic link.

    job_attempt: None for a job whose directory was not examined.
    state: "running" while nothing is decided, whether or not a task still runs; "recorded" after its
        commit has begun; "sealed" after the removal of old files has begun; "committed" if only clean-up
        is left; "undoing" if its commit is being given up; "aborting" if its abort has begun; "unknown"
        if its directory was not examined, or its state cannot be read; "left" for a job of Hadoop's S3A
        committer, below ``__magic``, that no commit here has taken over: `manifests` counts its
        pendingsets.
    committer: the process that is at work on its commit (`is_alive`), or else the process that began it:
        that it is at work is known by its signs of life, or by the kernel of this machine;
        `begun_seconds`: the time since the commit was begun, maybe by another process.
    manifests: the number of tasks that have committed; for a job with a record, of those that count.
    files, bytes: the output of these tasks; `is_estimate` marks an estimate. None if it is not known, as
        of a job that is "left".
    left: files that a commit still has to move; None if they were not counted.
    moved: files that a recorded commit had moved `moved_seconds` ago, by its last sign of life; a
        process that continues the commit of another counts from 0. None without a sign of life.
    per_second, seconds_left: of a commit that `is_alive`, how many files it moved per second before its
        last sign of life, and how long the others still take at that rate; None if that is not known.
    age_seconds: since the job's directory, its record or a manifest last changed; None if the store does
        not report it. The output of running tasks does not count.
    problem: why one of its files, or its directory, was not read; the numbers are then not reliable.
    command: the command that finishes what was begun; None if nothing was begun. The command of a job
        that is "left" has ``N`` in the place of the number of its tasks, which the store does not show.
    undo_command: the command that gives up a recorded commit, a job that is "left", or a job that only
        its own process can finish, such as an undo; None if that would be refused, or if nothing
        was begun.
    run_id: what it does once in its table, or None.
    claim: the version of its claim in the log of a table, for which other jobs wait, or None.
    partitions: what it claims, relative to the destination; an empty path is the whole table.
    table_version: the version at which the log says that it is committed.
    is_hadoops: whether Hadoop's manifest committer has set it up, whose driver may be at work on it.
    """

    job_id: str
    job_attempt: int | None
    directory: str
    state: str
    manifests: int
    files: int | None = None
    bytes: int | None = None
    is_estimate: bool = False
    left: int | None = None
    age_seconds: float | None = None
    committer: str | None = None
    is_alive: bool = False
    begun_seconds: float | None = None
    moved: int | None = None
    moved_seconds: float | None = None
    per_second: float | None = None
    seconds_left: float | None = None
    problem: str | None = None
    command: str | None = None
    undo_command: str | None = None
    run_id: str | None = None
    claim: int | None = None
    partitions: tuple[str, ...] = ()
    table_version: int | None = None
    is_hadoops: bool = False


def list_jobs(
    dest: str,
    *,
    exact: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> list[JobSummary]:
    """Return the jobs below ``$dest/_temporary``, sorted by id and attempt.

    This costs some listings and two or three reads per job attempt. With `exact`, every manifest is
    read, and the files that a commit still has to move are counted: one read and one listing per task,
    `options.threads` in parallel.

    >>> [(job.job_id, job.state, job.manifests) for job in list_jobs(dest)]
    [('job_1', 'running', 2)]
    """
    with open_here(dest, options, storage_options) as (store, destination):
        require_destination(store, destination)
        threads = options.threads if exact else None

        def look(is_last: bool) -> list[JobSummary]:
            jobs = jobs_at(store, destination)
            in_log = InLog(store, destination) if jobs else None
            return summaries(store, destination, dest, jobs, in_log, threads=threads, is_last=is_last)

        return look_again(look)


class JobMovedOnError(Exception):
    """A job has ended, or cannot be read any more, while it was watched whether it is at work."""


def look_again(look: Callable[[bool], T]) -> T:
    """What a look finds, which is made anew if a job has moved on meanwhile; it is told whether it is
    the last one, which shows such a job as it was."""
    for _ in range(_LOOKS - 1):
        with suppress(JobMovedOnError):
            return look(False)
    return look(True)


def summaries(
    store: StoreOperations,
    destination: str,
    dest: str,
    jobs: Sequence[JobStatus],
    in_log: InLog | None,
    *,
    threads: int | None,
    is_last: bool,
) -> list[JobSummary]:
    """The summaries of some jobs, and of the jobs that Hadoop's S3A committer left.

    `dest` is the destination as the user names it. With `threads`, count exactly. `JobMovedOnError` if
    the look must be made anew, unless it `is_last`.
    """
    now = time.time()
    surveys = _surveys(store, jobs, round(now * 1000), threads=threads, is_last=is_last)
    listed: list[JobSummary] = []
    count = Counter(status.directory for status in jobs)
    for status in jobs:
        if status.closed is not None:
            listed.append(_not_examined(status, status.closed))
        elif status.is_attempt:
            survey = surveys[status.job]
            summary = _summary(dest, survey, now, several=count[status.directory] > 1)
            listed.append(in_log.told(summary, survey) if in_log else summary)
    known = {job.job_id for job in listed}
    return [*listed, *_left(store, destination, dest, known)]


def _surveys(
    store: StoreOperations,
    jobs: Sequence[JobStatus],
    now_milliseconds: int,
    *,
    threads: int | None,
    is_last: bool,
) -> dict[JobAttempt, Survey]:
    """Survey all job attempts; watch those on which a committer whose clock is ahead may be at work."""
    survey = partial(survey_exactly, threads=threads) if threads else survey_job
    surveys = {
        status.job: survey(store, status.job, now_milliseconds) for status in jobs if status.is_open
    }
    doubtful = [job for job, each in surveys.items() if each.status.is_doubtful]
    if doubtful:
        look = partial(read_others, store, *doubtful, now_milliseconds=now_milliseconds)
        watched: list[JobStatus] = []
        with suppress(OSError, RayCommitterError):
            watched = until_certain(look)
        if len(watched) < len(doubtful) and not is_last:
            raise JobMovedOnError
        certain = {status.job: status for status in watched}
        for job in doubtful:
            status = replace(certain.get(job, JobStatus(job)), seen=surveys[job].status.seen)
            surveys[job] = replace(surveys[job], status=status)
    return surveys


class InLog:
    """What the log of the destination holds of its jobs; that a log cannot be read is a `problem` of
    each job. `version` is the last one of the table; None if it has no log."""

    def __init__(self, store: StoreOperations, destination: str) -> None:
        self.problem: str | None = None
        self._jobs = JobsInLog(store)
        try:
            self._jobs = read_jobs_in_log(store, destination)
        except (RayCommitterError, OSError) as e:
            self.problem = f"the log of the table cannot be read: {e}"
        self.version = self._jobs.version

    def told(self, summary: JobSummary, survey: Survey) -> JobSummary:
        """The summary of a job, with its claim."""
        job, current = survey.status.job, survey.status.seen
        try:
            logged = self._jobs.of(job, current.state.stamp, survey.table) if current else None
        except (RayCommitterError, OSError) as e:
            return replace(summary, problem=summary.problem or str(e))
        if logged is None:
            return replace(summary, problem=summary.problem or self.problem)
        return replace(
            summary, claim=logged.claim, partitions=logged.partitions, table_version=logged.version
        )


def _left(store: StoreOperations, destination: str, dest: str, known: set[str]) -> Iterator[JobSummary]:
    """The jobs of Hadoop's S3A committer that were not taken over."""
    for job_id in list_s3a(store, destination):
        attempts = s3a_attempts(store, destination, job_id) if job_id not in known else []
        for status in attempts:
            command = partial(job_command, dest=dest, job=status.job, name_attempt=len(attempts) > 1)
            yield JobSummary(
                job_id=job_id,
                job_attempt=status.job.number,
                directory=status.job.directory,
                state="left",
                manifests=len(status.manifests or ()),
                command=command("commit", options=["--expect-tasks", "N"]),
                undo_command=command("abort"),
            )


def _not_examined(status: JobStatus, error: PermissionError | RayCommitterError) -> JobSummary:
    """A directory that was not read, or an attempt that is a symbolic link."""
    job, number = status.job, status.job.number if status.is_attempt else None
    text = problem(error, job.directory)
    return JobSummary(job.job_id, number, job.directory, "unknown", 0, problem=text)


def _summary(dest: str, survey: Survey, now: float, *, several: bool) -> JobSummary:
    attempt, current = survey.status.job, survey.status.seen
    begun, is_recorded = survey.begun, survey.phase is Phase.RECORDED
    beat = begun.beat if begun and is_recorded else None
    is_alive = begun is not None and begun.is_alive
    rate = beat.per_second if beat and is_alive else None
    command = partial(_command, dest, attempt, several=several)
    undo = UNDO if begun is not None and begun.is_undoable and not is_alive else None
    return JobSummary(
        job_id=attempt.job_id,
        job_attempt=attempt.number,
        directory=attempt.directory,
        state=survey.state,
        manifests=survey.manifests,
        files=survey.files,
        bytes=survey.bytes,
        is_estimate=survey.is_estimate,
        left=survey.left,
        age_seconds=seconds_since(now, survey.newest_milliseconds),
        committer=f"process {begun.owner.process} on {begun.owner.host}" if begun else None,
        is_alive=is_alive,
        begun_seconds=seconds_since(now, begun.declaration.created_milliseconds) if begun else None,
        moved=beat.files if beat else None,
        moved_seconds=seconds_since(now, beat.at_milliseconds) if beat else None,
        per_second=rate,
        seconds_left=_seconds_left(now, survey.files or 0, beat, rate) if beat and rate else None,
        problem=survey.problem,
        command=command(ENDS.get(survey.phase)),
        undo_command=command(("abort",) if current is not None and current.state.is_bound else undo),
        is_hadoops=survey.is_hadoops,
        run_id=survey.run_id,
    )


def _command(
    dest: str, attempt: JobAttempt, words: Sequence[str] | None, *, several: bool
) -> str | None:
    if words is None:
        return None
    verb, *options = words
    return job_command(verb, dest, attempt, name_attempt=several, options=options)


def _seconds_left(now: float, files: int, beat: Heartbeat, rate: float) -> float:
    """How long the files that were not moved at the sign of life take from now on, at this rate."""
    return max(0.0, (files - beat.files) / rate - (now - beat.at_milliseconds / 1000))


def seconds_since(now: float, milliseconds: int | None) -> float | None:
    """Seconds since then; a time of a clock that is ahead of this one counts as now."""
    return None if milliseconds is None else max(0.0, now - milliseconds / 1000)
