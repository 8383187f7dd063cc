"""What ``ray-committer status`` prints of a destination."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.text import Text

from ray_committer.cli.print import age_text, ago_text, count_text, partitions_text, size_text
from ray_committer.jobs.destination_status import DestinationStatus, Leftover
from ray_committer.jobs.list_jobs import JobSummary
from ray_committer.jobs.past_commits import PastCommit
from ray_committer.protocol.other_committers import LeftBy
from ray_committer.report.amounts import seconds_text

_MEANING = {
    "running": ("undecided: its tasks may still run, or the application has died", ""),
    "hadoops": ("undecided: of Hadoop's manifest committer, which is at work or has died", ""),
    "recorded": ("recorded: its commit has begun; a new run of its application doubles rows", "red"),
    "sealed": ("sealed: all its files are in place; data that it replaces may be gone", "red"),
    "committed": ("committed; its clean-up has not ended", "yellow"),
    "undoing": ("undoing: its commit is being given up; some of its files may be visible", "red"),
    "unknown": ("unknown: its state was not read, so its commit may have begun", "yellow"),
    "left": ("left by Hadoop's S3A committer, whose driver may still be at work on it", ""),
    "aborting": ("aborting: its abort has begun but not ended", "yellow"),
}
_COMMITTING = ("recorded", "sealed")
BEGUN = (*_COMMITTING, "undoing")
"""The states of a commit that has begun and not ended: a process is at work on it, or it needs one."""
_HOLDS = {
    "nothing": "empty",
    "data": "data without _SUCCESS",
    "committed": "committed",
    "unknown": "it cannot be listed",
}
_LEFT = {
    LeftBy.FILE_OUTPUT_COMMITTER: (
        "of FileOutputCommitter, which is at work or has died",
        "if nobody writes here, delete it: the next job of that committer publishes it",
    ),
    LeftBy.SPARK_STAGING: (
        "of Spark's own dynamic partition overwrite, which is at work or has died",
        "if nobody writes here, run that write again, then delete it",
    ),
    LeftBy.HIVE_STAGING: (
        "of a query of Hive, which is at work or has died",
        "if nobody writes here, delete it",
    ),
    LeftBy.CLEAN_UP: (
        "of a clean-up, which is at work or was stopped",
        "if no job ends here just now, remove it",
    ),
    LeftBy.MISLAID: (
        "holds a job whose commit has begun: a process that was paused moved it here by mistake",
        "look where it belongs",
    ),
    LeftBy.UPLOADS: ("pending uploads, and no job is here", "look at them"),
    LeftBy.NOTHING: ("an empty directory of a job", "remove it"),
    LeftBy.UNKNOWN: ("holds no job, and is of no known committer", "find out who made it"),
}
"""What each leftover is, and what to do about it."""
_SHOWN_PATHS = 3


def status_lines(destination: str, status: DestinationStatus) -> Iterator[Text | str]:
    """Yield the lines: the last commit, each job, and each leftover; paths and commands end a line."""
    version = f", version {status.table_version:,} of the table" if status.table_version else ""
    jobs = count_text(len(status.jobs), "job") if status.jobs else "no jobs"
    yield f"{destination}: {_state(status)}{version}; {jobs}"
    if status.last_commit is not None:
        yield from _last_commit(status.last_commit)
    if status.problem is not None:
        yield Text(f"  {status.problem}", style="red")
    yield from _job_lines(list(status.jobs))
    for leftover in status.leftovers:
        yield from _leftover(leftover)


def _state(status: DestinationStatus) -> str:
    """The state in a few words: a commit that has not ended is worth more than what there was before."""
    if any(job.is_alive for job in status.jobs if job.state in BEGUN):
        return "a commit is at work"
    return "a commit has begun but not ended" if is_unfinished(status) else _HOLDS[status.holds]


def is_unfinished(status: DestinationStatus) -> bool:
    """Whether the commit of a job has begun and not ended."""
    is_mislaid = any(leftover.left_by == LeftBy.MISLAID for leftover in status.leftovers)
    return is_mislaid or any(job.state in BEGUN for job in status.jobs)


def _last_commit(commit: PastCommit) -> Iterator[Text | str]:
    if commit.problem is not None:
        yield Text(f"  {commit.source}: not read: {commit.problem}", style="red")
        return
    when = "at an unknown time"
    if commit.at_milliseconds is not None:
        moment = datetime.fromtimestamp(commit.at_milliseconds / 1000, UTC)
        ago = ago_text((datetime.now(UTC) - moment).total_seconds())
        when = f"{ago} ({moment:%Y-%m-%d %H:%M:%S} UTC)"
    yield f"  last commit: {commit.job_id or 'a job that is not named'}, {when}"
    facts = [] if commit.files is None else [count_text(commit.files, "file"), size_text(commit.bytes)]
    facts += [f"version {commit.table_version:,}"] if commit.table_version else []
    where = f" on {commit.hostname}" if commit.hostname else ""
    facts += [f"run id {commit.run_id}"] if commit.run_id else []
    facts += [f"by {commit.committer}{where}"] if commit.committer else []
    if facts:
        yield f"  {', '.join(facts)}"


def _leftover(leftover: Leftover) -> Iterator[Text | str]:
    what, advice = _LEFT[LeftBy(leftover.left_by)]
    for path in leftover.paths[:_SHOWN_PATHS]:
        yield Text(path, style="bold")
    if len(leftover.paths) > _SHOWN_PATHS:
        yield f"and {len(leftover.paths) - _SHOWN_PATHS:,} more; --output json shows all"
    tasks = f": {count_text(leftover.tasks, 'task')} committed" if leftover.tasks is not None else ""
    yield Text(f"  {what}{tasks}", style="yellow")
    if leftover.age_seconds is not None:
        yield f"  {age_text(leftover.age_seconds)}"
    yield f"  {advice}: {leftover.command}" if leftover.command else f"  {advice}"


def _job_lines(jobs: list[JobSummary]) -> Iterator[Text | str]:
    ids = [job.job_id for job in jobs]
    for job in jobs:
        named = job.job_attempt or ids.count(job.job_id) > 1
        yield Text(f"{job.job_id}, attempt {job.job_attempt}" if named else job.job_id, style="bold")
        meaning, style = _MEANING["hadoops" if job.is_hadoops else job.state]
        yield Text(f"  {meaning}", style="" if job.is_alive else style)
        if job.state == "left":
            yield f"  {count_text(job.manifests, 'task')} committed"
        elif job.state != "unknown":
            yield f"  {_amounts(job)}; {age_text(job.age_seconds)}"
        if job.left is not None and job.state in _COMMITTING:
            yield f"  {count_text(job.left, 'file')} still to be moved"
        if job.committer is not None and job.state != "undoing":
            yield f"  {_committer(job)}"
        if job.moved is not None and job.left is None:
            yield f"  {_moved(job)}"
        if job.per_second is not None and job.left is None:
            yield f"  {_speed(job)}"
        if job.run_id is not None:
            yield f"  run id {job.run_id}"
        if job.claim is not None:
            yield f"  {_in_log(job)}"
        if job.problem is not None:
            yield Text(f"  {job.problem}", style="red")
        yield from _commands(job)
    yield from _notes(jobs)


def _committer(job: JobSummary) -> str:
    """The process that began the commit, or the process to wait for."""
    begun = f"begun {ago_text(job.begun_seconds)}"
    if job.is_alive:
        return f"{begun}; {job.committer} is at work: wait for it"
    return f"{begun} by {job.committer}, which has stopped"


def _moved(job: JobSummary) -> str:
    """The progress at the last sign of life, without the files that an earlier process moved."""
    files, ago = count_text(job.files, "file"), ago_text(job.moved_seconds)
    return f"at least {job.moved:,} of {files} moved, as of {ago}"


def _speed(job: JobSummary) -> str:
    """The rate before the last sign of life, and how long the rest takes at that rate."""
    if not job.per_second or job.seconds_left is None:
        return "no file was moved since the sign of life before that"
    return f"{job.per_second:,.0f} files per second, about {seconds_text(job.seconds_left)} to go"


def _in_log(job: JobSummary) -> str:
    if job.table_version is not None:
        return f"committed as version {job.table_version:,} of the table (claim {job.claim:,})"
    return f"other jobs wait for its claim on {partitions_text(job.partitions)} (version {job.claim:,})"


def _commands(job: JobSummary) -> Iterator[str]:
    if job.state == "left":
        yield f"  if its driver is dead and N tasks had succeeded, finish it: {job.command}"
        yield f"  or give it up: {job.undo_command}"
    elif job.command is not None:
        yield f"  {'if it stops, finish it' if job.is_alive else 'finish it'}: {job.command}"
        if job.undo_command is not None:
            yield f"  or give it up: {job.undo_command}"
    elif job.undo_command is not None:
        yield "  only its own process can finish it"
        yield f"  if that has ended, give it up: {job.undo_command}"


def _amounts(job: JobSummary) -> str:
    files = count_text(job.files, "file", about=job.is_estimate)
    size = size_text(job.bytes, about=job.is_estimate)
    return f"{count_text(job.manifests, 'task')}, {files}, {size}"


def _notes(jobs: list[JobSummary]) -> Iterator[str]:
    """What was not read, because that costs requests per task, and what the user can do."""
    if any(job.is_estimate for job in jobs):
        yield "about: estimated from the largest manifest of the job; --exact reads them all"
    if any(job.state in _COMMITTING and job.left is None for job in jobs):
        yield "--exact counts the files that are still to be moved"
    if any(job.state == "running" and job.undo_command is None for job in jobs):
        yield "undecided: run `commit --expect-tasks N` if all tasks are done, or `abort` it"
