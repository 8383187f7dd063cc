"""Open one operation on one job attempt: its store, its executor, and its state on the store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    JobNotFoundError,
    PathError,
    RayCommitterError,
    StoreFailedError,
    StoreUnavailableError,
    ThrottledError,
    failed_request,
    mark,
)
from ray_committer.events import CancelToken, EventSink, ignore, unfailing
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import Choice, ExecutorName, choose_executor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.manifests import estimate_files
from ray_committer.job_files.read_job import as_set_up
from ray_committer.job_files.set_up_here import take
from ray_committer.job_files.success import is_noted
from ray_committer.jobs.find_attempt import find_or_adopt, guarded_here
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stages.context import JobContext, Journal, time_stage
from ray_committer.stages.other_jobs.ended_jobs import job_gone, no_directory, not_found
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import located, open_store, resolve_destination, shown_url
from ray_committer.work.worker import Worker, WorkerSpec

StorageOptions = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job attempt to work on, with the roots of the options as paths of its store."""

    context: JobContext
    state: JobStatus
    replaced_roots: tuple[str, ...]
    allowed_roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Started:
    """An operation that has begun and has no context yet; `began` by `time.monotonic`."""

    executor: ExecutorName | CommitPool
    options: CommitOptions
    on_event: EventSink
    cancel: CancelToken
    began: float = field(default_factory=time.monotonic)
    journal: Journal = field(default_factory=Journal)


@contextmanager
def open_job(
    dest: str,
    job_id: str | None,
    *,
    executor: ExecutorName | CommitPool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
    to_commit: bool = False,
    is_dry_run: bool = False,
) -> Iterator[OpenJob]:
    """Find the job attempt and start its executor, which ends with the block.

    With `to_commit`, `CommitRecordExistsError` if the attempt has no commit record, and another attempt
    is committed, or is newer. A job that Hadoop's S3A committer left is adopted, its dry run refused.
    """
    started = _Started(executor, options, unfailing(on_event), cancel or CancelToken())
    spec, destination = resolve_destination(dest, storage_options)
    with located_errors(spec):
        shown = shown_url(spec, destination)
        finding = time_stage(names.FIND_JOB, started.on_event, started.journal, shown)
        with finding, _state_unknown(destination):
            store = _open(spec, options, job_id)
            here, number = guarded_here(store, options), options.job_attempt
            is_commit = to_commit and not is_dry_run
            known = take(here, destination, job_id, number) if is_commit else None
            if known is not None and options.committed_tasks is not None:
                state, is_adopted = as_set_up(here, *known), False
            else:
                state, is_adopted = find_or_adopt(
                    here,
                    destination,
                    job_id,
                    number if known is None else known[0].number,
                    to_commit=to_commit and options.committed_tasks is None and known is None,
                    is_dry_run=is_dry_run,
                )
            if known is not None:
                state = replace(state, prepared=known[1].prepared)
        with _context(store, state.job, started) as context:
            yield OpenJob(
                replace(context, is_adopted=is_adopted),
                state,
                roots_on_store(options.replaced_roots, spec),
                roots_on_store(options.allowed_roots, spec),
            )


@contextmanager
def open_new_job(
    dest: str,
    job_id: str,
    *,
    executor: ExecutorName | CommitPool,
    options: CommitOptions,
    storage_options: StorageOptions | None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
) -> Iterator[JobContext]:
    """The context of a job that is not set up yet, with its executor, which ends with the block."""
    started = _Started(executor, options, unfailing(on_event), cancel or CancelToken())
    spec, destination = resolve_destination(dest, storage_options)
    with (
        located_errors(spec),
        _context(_open(spec, options), new_job_attempt(destination, job_id, 0), started) as context,
    ):
        yield context


@contextmanager
def _context(store: StoreOperations, job: JobAttempt, started: _Started) -> Iterator[JobContext]:
    choice = _choose(store, job, started)
    started.cancel.on_cancel(choice.executor.cancel)
    choice.executor.listen(started.on_event)
    try:
        yield JobContext(
            GuardedStore(store, choice.executor.permits, retry_seconds=started.options.retry_seconds),
            job,
            started.options,
            choice.executor,
            started.on_event,
            cancelled=started.cancel,
            journal=started.journal,
            executor_reason=choice.reason,
            began=started.began,
        )
    finally:
        choice.executor.close()


def _choose(store: StoreOperations, job: JobAttempt, started: _Started) -> Choice:
    spec, options = store.spec, started.options
    retry_seconds = options.retry_seconds
    return choose_executor(
        started.executor,
        options,
        open_here=lambda permits: Worker(
            store, job, permits, in_driver=True, retry_seconds=retry_seconds
        ),
        open_elsewhere=WorkerSpec(spec, job, options.worker_threads, retry_seconds),
        renames_are_local=store.capabilities.renames_are_local,
        estimate_files=lambda: _files(store, job, options),
        about=f"{job.job_id} at {shown_url(spec, job.destination)}",
        store=without_password(f"{spec.scheme}://{spec.authority}"),
        connecting=lambda: time_stage(names.CONNECT_RAY, started.on_event, started.journal, job.job_id),
    )


def _files(store: StoreOperations, job: JobAttempt, options: CommitOptions) -> int:
    """About how many files the job has: a driver knows it, others look at the manifests."""
    tasks = options.committed_tasks
    if tasks is not None and all(task.size for task in tasks):
        return sum(task.files for task in tasks)
    return estimate_files(guarded_here(store, options), job)


@contextmanager
def _state_unknown(destination: str) -> Iterator[None]:
    """`CommitStateUnknownError` if the store cannot be opened, or a request fails."""
    try:
        yield
    except PermissionError as e:
        raise CommitStateUnknownError(
            f"{mark(str(e.filename or destination))}: no permission ({e.strerror}), so the state of the "
            "job is not known",
            "nothing was changed: grant the permission and run the same command",
        ) from e
    except OSError as e:
        raise CommitStateUnknownError(
            f"{failed_request(e, destination)}, so the state of the job is not known",
            "nothing was changed: fix that and run the same command",
        ) from e


@contextmanager
def attempt_context(
    store: GuardedStore, job: JobAttempt, options: CommitOptions
) -> Iterator[JobContext]:
    """The context for work, in this thread, on a job attempt that was found already."""
    limit = RateLimit(options.max_requests_per_second)
    executor = InlineExecutor(lambda permits: Worker(store, job, permits, in_driver=True), limit)
    try:
        yield JobContext(store, job, options, executor)
    finally:
        executor.close()


@dataclass(frozen=True, slots=True)
class OpenToLoad:
    """A job attempt and its store, for the manifests that are loaded while its tasks run."""

    store: GuardedStore
    job: JobAttempt


def open_to_load(
    dest: str, job_id: str, options: CommitOptions, storage_options: StorageOptions | None
) -> OpenToLoad:
    """Open the store of a job attempt that was set up; makes no request for the job itself."""
    with open_here(dest, options, storage_options) as (store, destination):
        return OpenToLoad(store, new_job_attempt(destination, job_id, options.job_attempt or 0))


@contextmanager
def open_here(
    dest: str, options: CommitOptions, storage_options: StorageOptions | None
) -> Iterator[tuple[GuardedStore, str]]:
    """Open the store of a destination, for a few requests without an executor; yield it and the path."""
    spec, destination = resolve_destination(dest, storage_options)
    with located_errors(spec):
        store = open_store(spec, retry_seconds=options.retry_seconds)
        yield guarded_here(store, options), destination


@contextmanager
def located_errors(spec: StoreSpec) -> Iterator[None]:
    """Show the URL in errors: stages know only paths, which several buckets can have. An ``OSError``
    that no stage expects becomes a `StoreFailedError`, unless it is of the store's own classes."""
    try:
        yield
    except RayCommitterError as e:
        e.locate(shown_url(spec, ""))
        raise
    except OSError as e:
        if isinstance(e.filename, str):
            e.filename = located(spec, e.filename)
        if isinstance(e, ThrottledError | StoreUnavailableError):
            raise
        raise StoreFailedError.of(e) from e


def _open(spec: StoreSpec, options: CommitOptions, job_id: str | None = None) -> StoreOperations:
    """Open the store of a job; an error without its bucket, in which the job may have been committed."""
    try:
        return open_store(spec, retry_seconds=options.retry_seconds)
    except FileNotFoundError as e:
        what = failed_request(e)
        if job_id is not None:
            raise job_gone(JobNotFoundError(what, "check the destination's spelling"), job_id) from e
        raise CommitAbortedError(what, "nothing was changed: correct the destination") from e


def require_destination(store: StoreOperations, destination: str) -> None:
    """`JobNotFoundError` if there is no directory: the name is wrong, rather than the place empty. There
    is one also if a store without directories has nothing but uploads there."""
    status = store.get_status(destination)
    if status is None and store.list_uploads(destination).uploads:
        return
    if status is None or not status.is_directory:
        raise no_directory(destination, status)


def existing_state(job: OpenJob) -> JobStatus:
    """The state of the job attempt; `JobNotFoundError` if there is nothing to commit."""
    if not job.state.is_remnant:
        return job.state
    attempt, store = job.context.job, job.context.store
    if is_noted(store, attempt):
        raise JobNotFoundError(
            f"{mark(attempt.directory)}: is gone, since job {attempt.job_id} is committed",
            "nothing is left to do",
        )
    raise not_found(store, attempt.destination, attempt.job_id)


def roots_on_store(roots: tuple[str, ...], spec: StoreSpec) -> tuple[str, ...]:
    """The paths of `roots`; `PathError` if one is on another store."""
    resolved = [resolve_destination(root, spec.storage_options) for root in roots]
    for (root_spec, _), root in zip(resolved, roots, strict=True):
        if replace(root_spec, storage_options={}) != replace(spec, storage_options={}):
            raise PathError(
                f"{without_password(root)}: is not on the destination's store {spec.scheme}://"
            )
    return tuple(path for _, path in resolved)
