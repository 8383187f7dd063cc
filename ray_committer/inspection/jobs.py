"""The jobs below a destination, and how far their commits got."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ray_committer.open_job import StorageOptions, open_here, require_destination
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.commands import job_command
from ray_committer.stages.find_job import list_job_directories
from ray_committer.stages.survey_jobs import (
    ABORTING,
    COMMITTED,
    RECORDED,
    Survey,
    survey_exactly,
    survey_job,
)

_DEFAULTS = CommitOptions()
_VERBS = {RECORDED: "commit", COMMITTED: "commit", ABORTING: "abort"}


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job attempt below ``$dest/_temporary``.

    state: "running" without a commit record, whether or not a task still runs; "recorded" once its
        commit has begun; "committed" if only clean-up is left; "aborting" if its abort has begun.
    manifests: the tasks that have committed; of a job with a record, those that count.
    files, bytes: what these have written; `is_estimate` tells that it is one. None if it is not known.
    left: files that a commit has still to move; None if nobody has looked.
    age_seconds: since the job's directory, its record or a manifest last changed; None if the store does
        not tell. What a running task writes is not looked at.
    problem: why one of its files could not be read; the numbers are then not to be relied on.
    command: the command that finishes what was begun; None if nothing was.
    """

    job_id: str
    job_attempt: int
    directory: str
    state: str
    manifests: int
    files: int | None = None
    bytes: int | None = None
    is_estimate: bool = False
    left: int | None = None
    age_seconds: float | None = None
    problem: str | None = None
    command: str | None = None


def list_jobs(
    dest: str,
    *,
    exact: bool = False,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> list[JobSummary]:
    """The jobs below ``$dest/_temporary``, by id and attempt.

    Costs up to two listings and one read a job attempt. With `exact` every manifest is read instead of
    estimated by, and of a job whose commit has begun the files are counted that it has still to move:
    a read, and then a listing, a task, `options.threads` at once.

    >>> [(job.job_id, job.state, job.manifests) for job in list_jobs(dest)]
    [('job_1', 'running', 2)]
    """
    store, destination = open_here(dest, options, storage_options)
    require_destination(store, destination)
    now = time.time()
    found = []
    for job in list_job_directories(store, destination):
        for attempt in job.attempts:
            survey = (
                survey_exactly(store, attempt, threads=options.threads)
                if exact
                else survey_job(store, attempt)
            )
            found.append(_summary(dest, attempt, survey, now, several=len(job.attempts) > 1))
    return found


def _summary(dest: str, attempt: JobAttempt, survey: Survey, now: float, *, several: bool) -> JobSummary:
    newest = survey.newest_milliseconds
    verb = _VERBS.get(survey.state)
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
        age_seconds=None if newest is None else max(0.0, now - newest / 1000),
        problem=survey.problem,
        command=job_command(verb, dest, attempt, name_attempt=several) if verb else None,
    )
