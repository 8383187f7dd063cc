"""One job whose tasks write Arrow tables: the work of its driver and its tasks, for any engine.

Each task attempt saves its own manifest and returns the manifest's name and digest. The driver commits
exactly the attempts whose results it gets: one that was lost, was repeated or still runs adds no row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from typing import BinaryIO

from ray_committer.errors import CommitConflictError, IncompleteJobError, RayCommitterError, mark
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.commit import abort_job, commit_job, setup_job
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.task_attempts import TaskAttempt, run_attempt
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.staging import token_of
from ray_committer.report.commit_report import CommitReport
from ray_committer.stages.setup_job import first_data
from ray_committer.stores.base import StoreOperations
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout, write_tables

_log = logging.getLogger(__name__)


class WriteMode(StrEnum):
    """What a write does if there is data at its destination. ERROR fails, and IGNORE writes nothing.
    OVERWRITE_PARTITIONS replaces only the partitions that it writes to, as Spark's dynamic partition
    overwrite does. ERROR_PARTITIONS fails if one of these holds data."""

    APPEND = "append"
    ERROR = "error"
    ERROR_PARTITIONS = "error_partitions"
    IGNORE = "ignore"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"


_OF_PARTITIONS = (WriteMode.ERROR_PARTITIONS, WriteMode.OVERWRITE_PARTITIONS)


@dataclass(frozen=True, slots=True)
class ArrowJob:
    """A job that was set up, as it is sent to its tasks. `schema`, if it is known, is the schema of the
    file that the first task writes even without rows."""

    dest: str
    job_id: str
    layout: FileLayout
    mode: WriteMode
    options: CommitOptions
    storage_options: StorageOptions = field(repr=False)  # may hold secrets
    schema: pa.Schema | None = None


def write_mode(mode: str, layout: FileLayout) -> WriteMode:
    """Return the mode with that name; ``ValueError`` lists the modes."""
    if mode not in list(WriteMode):
        raise ValueError(f"mode {mode!r}: is not one of {', '.join(WriteMode)}")
    chosen = WriteMode(mode)
    if chosen in _OF_PARTITIONS and not layout.partition_by:
        raise ValueError(f"mode {chosen.value!r}: needs partition_by")
    return chosen


def start(
    dest: str,
    layout: FileLayout,
    *,
    mode: WriteMode,
    options: CommitOptions,
    storage_options: StorageOptions | None = None,
    schema: pa.Schema | None = None,
) -> ArrowJob | None:
    """Check what can be checked, then set up a job with a new id at `dest`, before its tasks run. None
    if there is nothing to do, because the mode is IGNORE and `dest` holds data."""
    if schema is not None:
        layout.check(schema)
    wanted = WriteMode.ERROR if mode is WriteMode.IGNORE else mode
    # IGNORE is ERROR up to here: only the refusal shows whether there is data.
    options = replace(options, mode=ConflictMode(wanted.value))
    try:
        job_id = setup_job(
            dest,
            options=options,
            storage_options=storage_options,
            on_warning=lambda text: _log.warning("%s", text),
        )
    except CommitConflictError:
        if mode is WriteMode.IGNORE and _holds_data(dest, options, storage_options):
            return None
        raise
    return ArrowJob(dest, job_id, layout, mode, options, storage_options or {}, schema)


def write_attempt(job: ArrowJob, task: int, tables: Iterable[pa.Table]) -> CommittedTask:
    """Run one task attempt: write its tables and save its manifest; return its name and digest. A task
    without rows also has a manifest."""
    paths: list[str] = []
    with run_attempt(
        job.dest,
        job.job_id,
        task,
        attempt=None,
        options=job.options,
        storage_options=job.storage_options,
        chooses_names=True,
    ) as attempt:

        def open_file(name: str) -> BinaryIO:
            file, path = attempt.open_chosen(name)
            paths.append(path)
            return file

        empty = job.schema if task == 0 else None
        choose = cache(partial(_standing, attempt, job.mode))
        stem = f"{task:05d}-{job.job_id.removeprefix('job_')}-{token_of(attempt.task_attempt_id)}"
        write_tables(tables, job.layout, open_file, stem=stem, schema=empty, choose=choose)
        for path in paths if job.options.durable else ():
            attempt.store.sync(path)
    if attempt.committed is None:
        raise AssertionError(f"{attempt.task_attempt_id}: ended without a manifest")
    return attempt.committed


def _standing(attempt: TaskAttempt, mode: WriteMode, directories: tuple[str, ...]) -> str:
    """The directory that stands already at the destination, of those that can have the same values;
    else the first. `CommitConflictError` if the mode is one of partitions and several stand there."""
    if len(directories) == 1:
        return directories[0]
    destination = attempt.job.destination
    standing = [
        directory for directory in directories if _is_there(attempt.store, join(destination, directory))
    ]
    if len(standing) > 1 and mode in _OF_PARTITIONS:
        two = (mark(join(destination, directory)) for directory in standing[:2])
        raise CommitConflictError(
            f"{' and '.join(two)}: are two directories of one partition",
            "nothing was changed: move the files of one to the other, and run the write again",
        )
    return standing[0] if standing else directories[0]


def _is_there(store: StoreOperations, directory: str) -> bool:
    try:
        return first_data(store, directory) is not None
    except NotADirectoryError:
        return False


def commit(
    job: ArrowJob, results: Sequence[CommittedTask | None], *, executor: ExecutorName | CommitPool
) -> CommitReport | None:
    """Commit exactly the attempts that `results` name, one per task; an empty output without results. If
    it is interrupted, ``ray-committer commit`` finishes it. None if the job was aborted, because the
    mode is IGNORE and data has come since `start`."""
    tasks = tuple(result for result in results if isinstance(result, CommittedTask))
    if len(tasks) < len(results):
        raise IncompleteJobError(
            f"{mark(job.dest)}: {len(results) - len(tasks)} of {len(results)} write tasks did not "
            "return their manifest, so nothing was committed",
            "run the write again",
        )
    # A dataset without blocks has no tasks; its output is the schema in an empty file, or nothing.
    tasks = tasks or (write_attempt(job, 0, ()),)
    options = replace(
        job.options,
        job_attempt=0,
        expected_tasks=len(tasks),
        committed_tasks=tasks,
        ignore_other_attempts=True,
    )
    try:
        return commit_job(
            job.dest, job.job_id, executor=executor, options=options, storage_options=job.storage_options
        )
    except CommitConflictError:
        # Data that came while the tasks ran; looked at again, as a conflict can have other reasons.
        ignored = job.mode is WriteMode.IGNORE and _holds_data(job.dest, options, job.storage_options)
        if ignored and abort(job):
            return None
        raise


def _holds_data(dest: str, options: CommitOptions, storage_options: StorageOptions | None) -> bool:
    with open_here(dest, options, storage_options) as (store, destination):
        return first_data(store, destination) is not None


def abort(job: ArrowJob, error: BaseException | None = None) -> bool:
    """Abort a job whose write failed; nothing is deleted after its commit has begun. Users must see the
    write's own `error`: a failure of the abort is logged, and added to it as a note."""
    try:
        abort_job(
            job.dest,
            job.job_id,
            options=replace(job.options, job_attempt=0),
            storage_options=job.storage_options,
        )
    except (OSError, RayCommitterError) as e:
        _log.warning("the job was not aborted: %s", e)
        if error is not None:
            error.add_note(f"The job was not aborted: {e}")
        return False
    return True


@contextmanager
def aborted_on_failure(job: ArrowJob) -> Iterator[None]:
    """Abort the job if the block raises an exception, and raise the exception again."""
    try:
        yield
    except BaseException as e:
        abort(job, e)
        raise
