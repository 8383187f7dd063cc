"""The jobs below a destination, and how far their commits got."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.open_job import StorageOptions, open_here, require_destination
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.commands import job_command
from ray_committer.stages.find_job import list_job_directories, not_read, skipped_link
from ray_committer.stages.survey_jobs import Survey, survey_exactly, survey_job

_DEFAULTS = CommitOptions()
_UNDO = ("abort", "--undo")
_VERBS = {
    Phase.RECORDED: ("commit",),
    Phase.SEALED: ("commit",),
    Phase.COMMITTED: ("commit",),
    Phase.UNDOING: _UNDO,
    Phase.ABORTED: ("abort",),
}


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job attempt below ``$dest/_temporary``, or a directory there into which nobody looked: it may
    not be read, or is a symbolic link.

    job_attempt: None of a job into whose directory nobody looked.
    state: "running" while nothing is decided, whether or not a task still runs; "recorded" once its
        commit has begun; "sealed" once old files go; "committed" if only clean-up is left; "undoing" if
        its commit is being given up; "aborting" if its abort has begun; "unknown" if nobody looked into
        its directory.
    committer: the process that is at work on its commit (`is_alive`), or else the one that began it;
        `begun_seconds`: since the commit was begun, maybe by another process.
    manifests: the tasks that have committed; of a job with a record, those that count.
    files, bytes: what these have written; `is_estimate` tells that it is one. None if it is not known.
    left: files that a commit has still to move; None if nobody has looked.
    moved: files that a recorded commit had moved `moved_seconds` ago, by its last sign of life; who goes
        on with the commit of another counts from 0. None if it has given none.
    age_seconds: since the job's directory, its record or a manifest last changed; None if the store does
        not tell. What a running task writes is not looked at.
    problem: why one of its files, or its directory, was not read; the numbers are then not to be relied
        on.
    command: the command that finishes what was begun; None if nothing was.
    undo_command: the command that gives a commit up that was recorded; None where that is refused.
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
    problem: str | None = None
    command: str | None = None
    undo_command: str | None = None


def list_jobs(
    dest: str,
    *,
    exact: bool = False,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> list[JobSummary]:
    """The jobs below ``$dest/_temporary``, by id and attempt.

    Costs some listings and two or three reads per job attempt. With `exact` every manifest is read, and
    of a job whose commit has begun the files are counted that it has still to move: a read and a
    listing per task, `options.threads` at once.

    >>> [(job.job_id, job.state, job.manifests) for job in list_jobs(dest)]
    [('job_1', 'running', 2)]
    """
    store, destination = open_here(dest, options, storage_options)
    require_destination(store, destination)
    now = time.time()
    milliseconds = round(now * 1000)
    found = []
    for job in list_job_directories(store, destination):
        if job.closed is not None:
            problem = not_read(job.closed, job.directory)
            found.append(JobSummary(job.job_id, None, job.directory, "unknown", 0, problem=problem))
        several = len(job.attempts) + len(job.linked) > 1
        for attempt in sorted((*job.attempts, *job.linked), key=lambda one: one.number):
            if attempt in job.linked:
                found.append(_link(attempt))
                continue
            survey = (
                survey_exactly(store, attempt, milliseconds, threads=options.threads)
                if exact
                else survey_job(store, attempt, milliseconds)
            )
            found.append(_summary(dest, attempt, survey, now, several=several))
    return found


def _link(attempt: JobAttempt) -> JobSummary:
    """An attempt that is a symbolic link."""
    directory = attempt.directory
    problem = skipped_link(directory)
    return JobSummary(attempt.job_id, attempt.number, directory, "unknown", 0, problem=problem)


def _summary(dest: str, attempt: JobAttempt, survey: Survey, now: float, *, several: bool) -> JobSummary:
    owner, is_recorded = survey.owner, survey.phase is Phase.RECORDED
    beat = survey.beat if is_recorded else None
    command = partial(_command, dest, attempt, several=several)
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
        age_seconds=_since(now, survey.newest_milliseconds),
        committer=f"process {owner.process} on {owner.host}" if owner else None,
        is_alive=survey.is_alive,
        begun_seconds=_since(now, survey.begun_milliseconds),
        moved=beat.files if beat else None,
        moved_seconds=_since(now, beat.at_milliseconds) if beat else None,
        problem=survey.problem,
        command=command(_VERBS.get(survey.phase)),
        undo_command=command(_UNDO if is_recorded and not survey.is_alive else None),
    )


def _command(
    dest: str, attempt: JobAttempt, words: Sequence[str] | None, *, several: bool
) -> str | None:
    if words is None:
        return None
    verb, *options = words
    return job_command(verb, dest, attempt, name_attempt=several, options=options)


def _since(now: float, milliseconds: int | None) -> float | None:
    """Seconds since then; a clock that is ahead of this one counts as now."""
    return None if milliseconds is None else max(0.0, now - milliseconds / 1000)
