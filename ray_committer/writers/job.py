"""One job whose tasks write Arrow tables: the work of its driver and its tasks, for any engine.

Each task attempt saves its own manifest and returns the manifest's name and digest. The driver commits
exactly the attempts whose results it gets. So an attempt that was lost, that was repeated or that still
runs adds no row.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from ray_committer.errors import IncompleteJobError, RayCommitterError
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.jobs.commit import abort_job, commit_job, setup_job
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.task_attempts import task_attempt
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.report.commit_report import CommitReport
from ray_committer.stores.base import sync
from ray_committer.stores.output import open_output
from ray_committer.writers.arrow import pa
from ray_committer.writers.files import FileLayout, Written, write_tables

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArrowJob:
    """A job that was set up, as it is sent to its tasks; `options` hold its mode.

    `schema`, if it is known, is the schema of the file that the first task writes even without rows.
    """

    dest: str
    job_id: str
    layout: FileLayout
    options: CommitOptions
    storage_options: StorageOptions = field(repr=False)  # may hold secrets
    schema: pa.Schema | None = None


def conflict_mode(mode: str) -> ConflictMode:
    """Return the mode with that name; ``ValueError`` lists the modes."""
    if mode not in list(ConflictMode):
        raise ValueError(f"mode {mode!r}: is not one of {', '.join(ConflictMode)}")
    return ConflictMode(mode)


def start(
    dest: str,
    layout: FileLayout,
    *,
    options: CommitOptions,
    storage_options: StorageOptions | None = None,
    schema: pa.Schema | None = None,
) -> ArrowJob:
    """Check what can be checked, then set up a job with a new id at `dest`, before its tasks run."""
    if schema is not None:
        layout.check(schema)
    job_id = setup_job(
        dest,
        options=options,
        storage_options=storage_options,
        on_warning=lambda text: _log.warning("%s", text),
    )
    return ArrowJob(dest, job_id, layout, options, storage_options or {}, schema)


def write_attempt(job: ArrowJob, task: int, tables: Iterable[pa.Table]) -> CommittedTask:
    """Run one task attempt: write its tables and save its manifest; return what identifies the manifest.

    A task without rows also has a manifest.
    """
    with task_attempt(
        job.dest,
        job.job_id,
        task,
        attempt=None,
        options=job.options,
        storage_options=job.storage_options,
    ) as attempt:
        stem = attempt.task_attempt_id.removeprefix("attempt_")
        empty = job.schema if task == 0 else None
        written = write_tables(tables, job.layout, attempt.open, stem=stem, schema=empty)
        for name in written.files if job.options.durable else ():
            sync(attempt.store, join(attempt.directory, name))
    if attempt.committed is None:
        raise AssertionError(f"{attempt.task_attempt_id}: ended without a manifest")
    return attempt.committed


def commit(
    job: ArrowJob, results: Sequence[CommittedTask | None], *, executor: ExecutorName | CommitPool
) -> CommitReport:
    """Commit exactly the attempts that `results` name, one per task.

    If the commit is interrupted, ``ray-committer commit`` finishes it. Without results there was nothing
    to write, and an empty output is committed.
    """
    tasks = tuple(result for result in results if isinstance(result, CommittedTask))
    if len(tasks) < len(results):
        raise IncompleteJobError(
            f"{job.dest}: {len(results) - len(tasks)} of {len(results)} write tasks did not return "
            f"their manifest, so nothing was committed",
            "run the write again",
        )
    tasks = tasks or (write_attempt(job, 0, ()),)
    options = replace(
        job.options,
        job_attempt=0,
        expected_tasks=len(tasks),
        committed_tasks=tasks,
        ignore_other_attempts=True,
        may_start_ray=False,
    )
    return commit_job(
        job.dest, job.job_id, executor=executor, options=options, storage_options=job.storage_options
    )


def abort(job: ArrowJob, error: BaseException | None = None) -> bool:
    """Abort a job whose write failed; nothing is deleted after its commit has begun.

    Users must see the write's own `error`: a failure of the abort is logged, and added to it as a note.
    """
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


def write_directly(
    dest: str,
    layout: FileLayout,
    tables: Iterable[pa.Table],
    *,
    task: int,
    storage_options: StorageOptions | None,
) -> Written:
    """Write a task's tables to their final paths; a failed or repeated task leaves its files there."""
    with open_here(dest, CommitOptions(), storage_options) as (store, destination):

        def open_file(relative: str) -> BinaryIO:
            path = join(destination, relative)
            if store.capabilities.has_directories:
                store.mkdirs(parent(path))
            return open_output(store.spec, path)

        return write_tables(tables, layout, open_file, stem=f"{task:05d}-{uuid.uuid4()}")
