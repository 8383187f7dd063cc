"""The public operations on jobs: set up, commit, abort, list, plan, validate; and the doctor.

Every function opens the store that the destination's URL names, and refuses one whose rename is a copy
before anything else happens. Errors are those of `ray_committer.errors`.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ray_committer.cancellation import CancelToken
from ray_committer.checkup.examine import examine, refused
from ray_committer.checkup.lines import Diagnosis
from ray_committer.commit_report import CommitReport
from ray_committer.errors import (
    JobNotFoundError,
    StoreRefusedError,
    ValidationError,
)
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName, open_pool
from ray_committer.open_job import (
    OpenJob,
    StorageOptions,
    existing_state,
    open_here,
    open_job,
    roots_on_store,
)
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import (
    MANIFEST_SUFFIX,
    JobAttempt,
    new_job_attempt,
)
from ray_committer.protocol.record import ConflictMode, ManifestRef
from ray_committer.report.recording import Recording
from ray_committer.stages import abort_job as abort_job_stage
from ray_committer.stages import commit_job as commit_job_stage
from ray_committer.stages import find_job
from ray_committer.stages import setup_job as setup_job_stage
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import load_manifests
from ray_committer.stages.preflight import preflight
from ray_committer.stages.save_commit_record import load_commit_record
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import open_store, resolve_destination

_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job attempt below ``$dest/_temporary``; `state` is running, recorded or committed."""

    job_id: str
    job_attempt: int
    directory: str
    state: str
    manifests: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a commit would do: counts, bytes, and whether an earlier run has begun it."""

    destination: str
    job_id: str
    job_attempt: int
    state: str
    manifests: int
    files: int
    bytes: int
    directories: int
    replaced: int


@contextmanager
def commit_pool(options: CommitOptions = _DEFAULTS) -> Iterator[CommitPool]:
    """Keep commit workers on Ray for many commits of this driver, several at once included.

    Give it to `commit_job` as `executor`, or to `ray_committer.spark.install`: the workers are started
    once, by `options` (workers, worker_cpus, worker_start_seconds, may_start_ray), and end with
    the block.
    """
    pool = open_pool(options)
    try:
        yield pool
    finally:
        pool.close()


def commit_job(
    dest: str,
    job_id: str | None = None,
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
    cancel: CancelToken | None = None,
    on_report: Callable[[CommitReport], None] = lambda _: None,
) -> CommitReport:
    """Commit a job: move every file of its successful tasks, and of no other, to its place.

    Idempotent: run again, it finishes an interrupted commit, and of a committed job it says so. Without
    `job_id` the destination must hold exactly one job. `on_report` is given the report even of a run
    that fails; `cancel` stops the commit from another thread.
    """
    recording = Recording()
    with open_job(
        dest,
        job_id,
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=recording.before(on_event),
        cancel=cancel,
    ) as job:
        return _run_commit(job, recording, record_only=False, on_report=on_report)


def record_job(
    dest: str,
    job_id: str | None = None,
    *,
    executor: ExecutorName | CommitPool = "auto",
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
    on_event: EventSink = ignore,
) -> CommitReport:
    """Check a job and write its commit record, no more: a later `commit_job` does the rest.

    From then on the job cannot be aborted, and its outcome is fixed.
    """
    recording = Recording()
    with open_job(
        dest,
        job_id,
        executor=executor,
        options=options,
        storage_options=storage_options,
        on_event=recording.before(on_event),
    ) as job:
        return _run_commit(job, recording, record_only=True, on_report=lambda _: None)


def plan_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> JobPlan:
    """Load and check a job as its commit would, without changing anything."""
    with open_job(
        dest, job_id, executor="threads", options=options, storage_options=storage_options
    ) as job:
        context = job.context
        state = existing_state(job)
        if state.has_commit_point:
            record = load_commit_record(context, committed=True)
            return _plan(context, "committed", record.manifests, 0, len(record.replaced))
        found = load_commit_record(context, committed=False) if state.has_record else None
        allowed = tuple(found.allowed_roots) if found else job.allowed_roots
        loaded = load_manifests(context, found, (context.job.destination, *allowed))
        if found is not None:
            replaced = len(found.replaced)
        else:
            replaced = len(preflight(context, loaded, job.replaced_roots).replaced)
        leaves = context.executor.directories.plan()
        what = "recorded" if found else "running"
        return _plan(context, what, list(loaded.manifests), leaves, replaced)


def validate_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> int:
    """Compare the destination with the job's manifests, or with ``_SUCCESS`` once they are gone.

    Returns the number of files compared; `ValidationError` names what differs. ``_SUCCESS`` names at
    most 100 files of a job and no sizes.
    """
    store, destination = open_here(dest, options, storage_options)
    try:
        with open_job(
            dest, job_id, executor="threads", options=options, storage_options=storage_options
        ) as job:
            state = existing_state(job)
            if state.is_decided and state.has_manifests:
                record = load_commit_record(job.context, committed=state.has_commit_point)
                roots = (job.context.job.destination, *record.allowed_roots)
                load_manifests(job.context, record, roots)
                return validate_renamed_files(job.context, record.manifests)
    except JobNotFoundError:
        return _validate_marker(store, destination, job_id)
    raise ValidationError(f"{destination}: the job is not committed yet")


def setup_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> str:
    """Set up a job at `dest` and return its id, a new one if none is given.

    With mode OVERWRITE it is marked as one that replaces data, and can only be committed as such; with
    mode ERROR it is refused where data is already.
    `on_warning` is told of other jobs at the destination whose commit never ended.
    """
    store, destination = open_here(dest, options, storage_options)
    job = new_job_attempt(destination, job_id or str(uuid.uuid4()), options.job_attempt or 0)
    find_job.refuse_if_other_attempt_is_decided(store, job)
    replaces = roots_on_store(options.replaced_roots, store.spec) or (destination,)
    warnings = setup_job_stage.setup_job(
        store,
        job,
        mark_success=options.mark_success,
        replaces=replaces if options.mode is ConflictMode.OVERWRITE else (),
        must_be_empty=options.mode is ConflictMode.ERROR,
    )
    for warning in warnings:
        on_warning(warning)
    return job.job_id


def abort_job(
    dest: str,
    job_id: str | None = None,
    *,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> bool:
    """Abort a job: delete what its tasks wrote. False if nothing was there.

    `CommitRecordExistsError`, with nothing deleted, once its commit has begun.
    """
    with open_job(
        dest, job_id, executor="inline", options=options, storage_options=storage_options
    ) as job:
        return abort_job_stage.abort_job(job.context, nonce=_nonce())


def list_jobs(dest: str, *, storage_options: StorageOptions | None = None) -> list[JobSummary]:
    """The jobs below ``$dest/_temporary``, by id and attempt."""
    store, destination = open_here(dest, _DEFAULTS, storage_options)
    if store.get_status(destination) is None:
        raise JobNotFoundError(f"{destination}: does not exist; check the destination's spelling")
    return [
        _summary(store, attempt)
        for found in find_job.list_job_directories(store, destination)
        for attempt in found.attempts
    ]


def read_text(url: str, *, storage_options: StorageOptions | None = None) -> str:
    """Read a file of text from the store that its URL names."""
    store, path = open_here(url, _DEFAULTS, storage_options)
    return store.read(path).decode()


def doctor(
    dest: str,
    *,
    executor: ExecutorName = "auto",
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> Diagnosis:
    """Try what a commit to `dest` rests on: its store, the Ray cluster, the Spark that is installed.

    It works on files of its own below ``$dest/_temporary`` and removes them. A store that is refused
    is a failed line, not an error.
    """
    try:
        spec, destination = resolve_destination(dest, storage_options)
        store = open_store(spec)
    except (StoreRefusedError, OSError) as e:
        return refused(dest, str(e))
    return examine(store, destination, executor, options)


def _nonce() -> str:
    return f"{socket.gethostname()}-{uuid.uuid4()}"


def _run_commit(
    job: OpenJob,
    recording: Recording,
    *,
    record_only: bool,
    on_report: Callable[[CommitReport], None],
) -> CommitReport:
    reports: list[CommitReport] = []

    def reported(report: CommitReport) -> None:
        reports.append(recording.complete(job.describe(report)))
        on_report(reports[0])

    commit_job_stage.commit_job(
        job.context,
        job.state,
        nonce=_nonce(),
        replaced_roots=job.replaced_roots,
        allowed_roots=job.allowed_roots,
        record_only=record_only,
        on_report=reported,
    )
    return reports[0]


def _plan(
    context: JobContext, state: str, manifests: list[ManifestRef], directories: int, replaced: int
) -> JobPlan:
    return JobPlan(
        destination=context.job.destination,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        state=state,
        manifests=len(manifests),
        files=sum(ref.files for ref in manifests),
        bytes=sum(ref.bytes for ref in manifests),
        directories=directories,
        replaced=replaced,
    )


def _summary(store: StoreOperations, attempt: JobAttempt) -> JobSummary:
    state = find_job.read_attempt_state(store, attempt)
    names = (
        [status.name for status in store.list_status(attempt.manifests)] if (state.has_manifests) else []
    )
    what = "committed" if state.has_commit_point else "recorded" if state.has_record else "running"
    manifests = sum(name.endswith(MANIFEST_SUFFIX) for name in names)
    return JobSummary(attempt.job_id, attempt.number, attempt.directory, what, manifests)


def _validate_marker(store: StoreOperations, destination: str, job_id: str | None) -> int:
    success = find_job.read_success(store, destination)
    if success is None or job_id not in (None, success.job_id):
        raise JobNotFoundError(
            f"{destination}: has neither the job nor its _SUCCESS, so there is nothing to compare"
        )
    paths = [resolve_destination(uri)[1] for uri in success.filenames or ()]
    if missing := [path for path in paths if store.get_status(path) is None]:
        raise ValidationError(f"{missing[0]}: is named by _SUCCESS and missing")
    return len(paths)
