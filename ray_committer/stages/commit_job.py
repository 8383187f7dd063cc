"""Commit a job: the order of the stages, and what a second run of it finds.

Undecided: load, preflight, write the commit record. Recorded: make directories, rename, reconcile,
validate, remove what is replaced, declare the commit point. Committed: ``_SUCCESS`` and clean-up.
Each run enters where the last one stopped, so running a commit again finishes it.
Source: Hadoop CommitJobStage.
"""

from __future__ import annotations

from collections.abc import Callable

from ray_committer.commit_report import CommitReport, Outcome
from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobNotFoundError,
    MissingManifestsError,
    RayCommitterError,
)
from ray_committer.events import CommitStarted, JobLoaded
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import count
from ray_committer.protocol.record import CommitRecord, ConflictMode
from ray_committer.stages.cleanup_job import cleanup_job, remove_empty_parents
from ray_committer.stages.commit_progress import CommitProgress, commit_report
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import load_with_coordinator, with_coordinator
from ray_committer.stages.create_output_directories import create_output_directories
from ray_committer.stages.find_job import AttemptState, read_success
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.preflight import preflight
from ray_committer.stages.remove_replaced_files import remove_replaced_files
from ray_committer.stages.rename_files import reconcile, rename_files
from ray_committer.stages.save_commit_record import (
    load_commit_record,
    refuse_aborted,
    refuse_foreign_paths,
    save_commit_point,
    save_commit_record,
)
from ray_committer.stages.save_success_file import save_success_file, save_summary_report
from ray_committer.stages.sync_to_disk import sync_destinations, sync_manifests, sync_replaced
from ray_committer.stages.throttling import note_limit
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.stages.worker import Worker


def commit_job(
    context: JobContext,
    state: AttemptState,
    *,
    nonce: str,
    replaced_roots: tuple[str, ...] = (),
    allowed_roots: tuple[str, ...] = (),
    record_only: bool = False,
    on_report: Callable[[CommitReport], None] = lambda _: None,
) -> CommitReport:
    """Commit the job, or finish what an earlier run left; idempotent.

    `state` is what `find_job` saw in the job attempt's directory. With `record_only` it stops once the
    commit record stands. `replaced_roots` and `allowed_roots` are paths on the store. `on_report` is
    given the report of this run even if it fails.
    """
    progress = CommitProgress()
    failure: Exception | None = None
    job = context.job
    context.emit(CommitStarted(job.destination, job.job_id, job.number, context.executor.name))
    try:
        with context.stage(names.COMMIT_JOB):
            _commit(context, state, progress, nonce, replaced_roots, allowed_roots, record_only)
    except OSError as e:
        failure = _store_failure(context, progress, e)
        raise failure from e
    except RayCommitterError as e:
        failure = _as_unknown(e) if progress.is_decided and _looks_harmless(e) else e
        raise failure from e.__cause__
    except Exception as e:
        failure = e
        raise
    finally:
        limit = note_limit(context)
        report = commit_report(context, progress, failure, limit)
        on_report(report)
        if failure is not None or progress.outcome is Outcome.COMMITTED:
            save_summary_report(context, progress.record, progress.renamed.sample, failure)
    return report


def _commit(
    context: JobContext,
    state: AttemptState,
    progress: CommitProgress,
    nonce: str,
    replaced_roots: tuple[str, ...],
    allowed_roots: tuple[str, ...],
    record_only: bool,
) -> None:
    if context.store.capabilities.risk is not None:
        context.notice(context.store.capabilities.risk)
    if state.is_remnant:
        progress.outcome = _finish_remnant(context, state)
        return
    progress.resumed = state.is_decided
    if not state.has_commit_point:
        record = load_commit_record(context, committed=False) if state.has_record else None
        if record is not None:
            refuse_aborted(context, record)
            refuse_foreign_paths(context, record, (*replaced_roots, *allowed_roots))
            context = context.as_recorded(record)
        progress.record = record
        roots = (context.job.destination, *(record.allowed_roots if record else allowed_roots))
        with context.stage(names.LOAD_MANIFESTS):
            loaded = load_with_coordinator(context, record, roots)
            sync_manifests(context, loaded.manifests)
        context.journal.add(loaded.statistics)
        if record is None:
            _check_intent(context, state)
            if not record_only:
                context.executor.start_workers()  # a cluster without room is found before the record
            record = _decide(context, loaded, nonce, replaced_roots, allowed_roots)
            if record.nonce != nonce:  # somebody else's, which is there since a moment ago
                refuse_foreign_paths(context, record, (*replaced_roots, *allowed_roots))
            progress.record = record
        context.emit(JobLoaded(len(record.manifests), record.files, record.bytes, progress.resumed))
        context.sync(context.job.commit_record, context.job.directory)
        if record_only:
            progress.outcome = Outcome.RECORDED
            return
        _publish(context, progress, record, loaded)
    _conclude(context, progress, progress.record or load_commit_record(context, committed=True))


def _check_intent(context: JobContext, state: AttemptState) -> None:
    """Refuse to append the output of a job that was meant to replace data: rows would double."""
    told = context.options.mode is ConflictMode.OVERWRITE or context.options.committed_tasks is not None
    if state.replaces_data and not told:
        raise IncompleteJobError(
            f"{context.job.directory}: this job was to replace data, but its driver ended before it "
            f"said which; abort it and run the application again, or commit it with mode OVERWRITE"
        )


def _decide(
    context: JobContext,
    loaded: LoadedManifests,
    nonce: str,
    replaced_roots: tuple[str, ...],
    allowed_roots: tuple[str, ...],
) -> CommitRecord:
    roots = (context.job.destination, *allowed_roots)
    with context.stage(names.PREFLIGHT):
        checked = with_coordinator(
            context, lambda: preflight(context, loaded, replaced_roots), None, roots
        )
    record = CommitRecord(
        nonce=nonce,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        created_milliseconds=context.now_milliseconds(),
        manifests=list(loaded.manifests),
        expected_tasks=context.options.expected_tasks,
        mode=context.options.mode,
        replaced=list(checked.replaced),
        overwritten=list(checked.overwritten),
        partition_paths=list(context.options.partition_paths),
        allowed_roots=list(allowed_roots),
        mark_success=context.options.mark_success,
        durable=context.options.durable,
    )
    with context.stage(names.SAVE_RECORD):
        return save_commit_record(context, record)


def _publish(
    context: JobContext, progress: CommitProgress, record: CommitRecord, loaded: LoadedManifests
) -> None:
    """Make the job's output visible, up to and including the commit point."""
    roots = (context.job.destination, *record.allowed_roots)
    with context.stage(names.CREATE_DIRECTORIES):
        context.executor.admit_workers(_prove_same_store, record.nonce)
        progress.directories = with_coordinator(
            context, lambda: create_output_directories(context), record, roots
        )
    with context.stage(names.RENAME_FILES):
        rename_files(context, record, loaded, progress.renamed)
        reconcile(context, record, progress.renamed)
    if context.syncs:
        with context.stage(names.SYNC):
            with_coordinator(context, lambda: sync_destinations(context), record, roots)
    context.journal.add(count(names.FILES_COMMITTED, progress.renamed.files))
    context.journal.add(count(names.BYTES_COMMITTED, progress.renamed.bytes))
    if recovered := progress.renamed.proved.total():
        context.journal.add(count(names.RENAME_RECOVERED, recovered))
    if _validates(context):
        with context.stage(names.VALIDATE):
            progress.validated = with_coordinator(
                context, lambda: validate_renamed_files(context, record.manifests), record, roots
            )
    if record.replaced:
        with context.stage(names.REMOVE_REPLACED):
            progress.replaced = remove_replaced_files(context, record)
            sync_replaced(context, record)
    with context.stage(names.COMMIT_POINT):
        save_commit_point(context, record)
        context.sync(context.job.directory)


def _conclude(context: JobContext, progress: CommitProgress, record: CommitRecord) -> None:
    """What is left once the commit point is reached; a failure here loses nothing."""
    context = context.as_recorded(record)
    progress.record = record
    progress.outcome = Outcome.COMMITTED
    if record.mark_success:
        with context.stage(names.SAVE_SUCCESS, cancellable=False):
            save_success_file(context, record, progress.renamed.sample)
    if context.options.cleanup:
        with context.stage(names.CLEANUP, cancellable=False):
            cleanup_job(context, record)


def _store_failure(context: JobContext, progress: CommitProgress, cause: OSError) -> RayCommitterError:
    """What a failed request means for who ran the commit."""
    where, what = cause.filename or context.job.directory, cause.strerror or cause
    if not progress.is_decided:
        return CommitAbortedError(
            f"{where}: {what}; no file was moved: mend that and run the same command"
        )
    return CommitStateUnknownError(
        f"{where}: {what}; the commit stopped in the middle and kept everything: mend that and run "
        f"the same command to finish it"
    )


def _looks_harmless(error: RayCommitterError) -> bool:
    """Whether an error says that nothing was changed; only of an aborted job is that always true."""
    return error.exit_code == 1 and not isinstance(error, CommitAbortedError)


def _as_unknown(error: RayCommitterError) -> CommitStateUnknownError:
    """An error that is harmless before the record stops a commit in the middle after it."""
    return CommitStateUnknownError(
        f"{error}; the commit has begun and kept everything: run the same command to finish it"
    )


def _finish_remnant(context: JobContext, state: AttemptState) -> Outcome:
    """Nothing is there to commit: say whether that is because it has been."""
    job = context.job
    success = read_success(context.store, job.destination)
    if success is None or success.job_id != job.job_id:
        if context.options.expected_tasks is not None:
            raise MissingManifestsError(
                f"{job.manifests}: {context.options.expected_tasks} tasks succeeded but their manifests "
                f"are gone; another job's clean-up may have deleted all of {job.temporary}"
            )
        what = "has no manifests" if state.exists else "does not exist"
        raise JobNotFoundError(
            f"{job.directory}: {what}, so there is nothing to commit; check the destination and the "
            f"job id (another job's clean-up may have deleted it)"
        )
    if state.exists and not state.has_tasks:
        context.store.delete_directory(job.directory)  # what an interrupted clean-up left
    remove_empty_parents(context)
    return Outcome.ALREADY_COMMITTED


def _prove_same_store(worker: Worker, nonce: str) -> None:
    """Work: on another node, read the commit record to prove that it is the same store.

    A worker that replaces a lost one may come when the record is the commit point already.
    """
    if worker.in_driver:
        return
    store, job = worker.store, worker.job
    try:
        try:
            data = store.read(job.commit_record)
        except FileNotFoundError:
            data = store.read(job.commit_point)
    except OSError as e:
        raise CommitStateUnknownError(
            f"{job.commit_record}: cannot be read on a worker's node ({e}); all nodes must see the "
            f"same file system or store, with the same rights. Nothing was moved from there"
        ) from e
    if nonce.encode() not in data:
        raise CommitStateUnknownError(
            f"{job.commit_record}: is another file on a worker's node; all nodes must see the same "
            f"file system or store. Nothing was moved from there"
        )


def _validates(context: JobContext) -> bool:
    if context.options.validate is None:
        return context.store.capabilities.listing_is_cheap
    return context.options.validate
