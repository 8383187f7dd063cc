"""Commit a job: the order of the stages, beside earlier runs and other processes.

Open: load, preflight, freeze, declare, look for obstacles, write the commit record. Recorded: make
directories, rename, reconcile, validate. Sealed, if it replaces anything: remove old files. Committed:
``_SUCCESS`` and clean-up.

Each run enters at the state that the job is in. A run that finds the state changed by another process
reads it again and continues from there. So running a commit again finishes it, and several runs at once
do each step as if they were one. Source: Hadoop CommitJobStage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobNotFoundError,
    RayCommitterError,
    RecordGoneError,
)
from ray_committer.events import CommitStarted, JobLoaded
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, StateChangedError, adopt_state, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.owners import at_work
from ray_committer.job_files.read_job import read_other
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.iostatistics import count
from ray_committer.protocol.record import CommitRecord, ConflictMode
from ray_committer.protocol.state import UNDECIDED, Intent, JobState, Phase, new_nonce
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.checks.attempts import listed_attempts, refuse_unsaved
from ray_committer.stages.claim_table import say_that_claim_stays
from ray_committer.stages.cleanup_job import cleanup_job, end_other_attempts, remove_what_was_late
from ray_committer.stages.commit_in_table import (
    commit_in_table,
    end_in_table,
    ends_with_its_commit,
    export_table,
    save_checkpoint_if_due,
    version_of,
)
from ray_committer.stages.commit_progress import CommitProgress
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import load_with_coordinator, with_coordinator
from ray_committer.stages.declare_job import Patience, busy, wait_for_declaration
from ray_committer.stages.ended_jobs import by_another_process, finish_remnant, say_what_became
from ray_committer.stages.find_table import find_table_late, require_table
from ray_committer.stages.heartbeat import heartbeat, signing_off
from ray_committer.stages.load_manifests import (
    LOADS,
    LoadedManifests,
    ManifestsChangedError,
    changed_too_often,
    load_manifests,
    load_unchanged,
)
from ray_committer.stages.old_files_aside import delete_old_files
from ray_committer.stages.old_success import delete_old_success
from ray_committer.stages.preflight import preflight
from ray_committer.stages.publish_job import (
    decide_committed,
    keep_old_files,
    move_files,
    replace_old_files,
    seal,
)
from ray_committer.stages.record_job import record_job
from ray_committer.stages.rename_files import Pass, Renamed
from ray_committer.stages.run_once import (
    CommittedBefore,
    RunCommittedError,
    find_committed,
    key_of,
    run_id_of,
)
from ray_committer.stages.save_commit_record import refuse_aborted, refuse_foreign_paths
from ray_committer.stages.save_success_file import (
    WrittenSuccess,
    save_success_file,
    write_success_file,
)
from ray_committer.stages.save_summary_report import save_summary_report
from ray_committer.stages.throttling import note_limit
from ray_committer.stages.touched_directories import touched_directories
from ray_committer.stores.base import FileStatus
from ray_committer.tables.run_session import session_of


@dataclass(slots=True)
class _Run:
    """One run of a commit: its arguments, and the data that it has loaded."""

    context: JobContext
    progress: CommitProgress
    name: str
    replaced_roots: tuple[str, ...]
    allowed_roots: tuple[str, ...]
    record_only: bool
    loaded: LoadedManifests | None = None
    success: WrittenSuccess | None = None
    listed: tuple[FileStatus, ...] | None = None
    """The manifests as they were listed with the first state, until they are loaded."""
    task_attempts: tuple[str, ...] | None = None
    """The task attempts with files, if the first state was read with them."""
    known: Seen | None = None
    """The last state that this run has read or written."""
    run_id: str | None = None
    """What the job does once, as far as it is known."""

    def roots(self, record: CommitRecord | None) -> tuple[str, ...]:
        """The directories that the job is allowed to write to."""
        allowed = record.allowed_roots if record else self.allowed_roots
        return (self.context.job.destination, *allowed)


def commit_job(
    context: JobContext,
    state: JobStatus,
    *,
    replaced_roots: tuple[str, ...] = (),
    allowed_roots: tuple[str, ...] = (),
    record_only: bool = False,
    on_result: Callable[[CommitResult], None] = lambda _: None,
) -> CommitResult:
    """Commit the job, or finish what an earlier run left; idempotent.

    `state` is the state of the job attempt as `read_job` saw it. With `record_only` the run stops after
    the commit record is written. `replaced_roots` and `allowed_roots` are paths on the store.
    `on_result` gets the result of this run, also if the run fails.
    """
    progress = CommitProgress()
    run = _Run(
        context,
        progress,
        new_nonce(),
        replaced_roots,
        allowed_roots,
        record_only,
        listed=state.manifests,
        task_attempts=state.task_attempts,
    )
    failure: Exception | None = None
    job = context.job
    context.emit(CommitStarted(context.url, job.job_id, job.number, context.executor.name))
    try:
        with context.stage(names.COMMIT_JOB), at_work(run.name), signing_off(context, run.name):
            _commit(run, state)
    except OSError as e:
        failure = _undecided(context, progress, _store_failure(context, progress, e))
        raise failure from e
    except RayCommitterError as e:
        failure = _as_unknown(e) if progress.is_decided and _looks_harmless(e) else e
        failure = _undecided(context, progress, failure)
        raise failure from e.__cause__
    except Exception as e:
        failure = e
        raise
    finally:
        limit = note_limit(context)
        if failure is not None or progress.outcome is Outcome.COMMITTED:
            sample, committed = progress.renamed.sample, progress.committed_anyway(failure)
            save_summary_report(context, progress.record, sample, failure, committed=committed)
        result = progress.result(context, failure, limit)
        on_result(result)
    return result


def _commit(run: _Run, state: JobStatus) -> None:
    context, progress = run.context, run.progress
    if context.store.capabilities.risk is not None:
        context.notice(context.store.capabilities.risk)
    run.run_id = context.options.run_id if context.options.table_work is None else None
    try:
        _commit_once(run, state)
    except RunCommittedError as e:
        _answer(run, CommittedBefore(e.run.version, e.job_id))
    except (CommitAbortedError, CommitStateUnknownError, JobNotFoundError):
        done = None
        if run.run_id is not None and progress.record is None:  # another run may have given the job up
            done = find_committed(context, run.run_id)
        if done is None:
            raise
        _answer(run, done)
    progress.run_id = run.run_id or (progress.record.run_id if progress.record else None)
    if progress.run_id is not None:
        jobs = {context.job.job_id, progress.committed_by or context.job.job_id}
        session_of(context.options.known_jobs).remember(key_of(context, progress.run_id), jobs)


def _answer(run: _Run, done: CommittedBefore) -> None:
    """Give the job up, and say that its work was committed before."""
    context, progress = run.context, run.progress
    progress.outcome, progress.table_version = Outcome.ALREADY_COMMITTED, done.version
    if done.job_id == context.job.job_id:  # another process has committed and removed it
        by_another_process(context)
        return
    abort_job(context)
    progress.committed_by = done.job_id
    context.notice(
        f"{context.job.destination}: run id {run.run_id} is committed already as version "
        f"{done.version}, by job {done.job_id}; the files of job {context.job.job_id} were removed"
    )


def _commit_once(run: _Run, state: JobStatus) -> None:
    """Commit the job unless another job has done its work: `RunCommittedError`."""
    context, progress = run.context, run.progress
    if state.is_remnant:
        progress.outcome, progress.table_version = finish_remnant(context)
        return
    seen = state.seen or adopt_state(context.store, context.job)
    if seen is None:  # it had no state, and another process has ended it
        progress.outcome, progress.table_version = finish_remnant(context)
        return
    run.run_id = run_id_of(context, seen) or run.run_id
    key = key_of(context, run.run_id) if run.run_id is not None else None
    with session_of(context.options.known_jobs).alone(key):
        _commit_seen(run, seen)


def _commit_seen(run: _Run, seen: Seen) -> None:
    context, progress = run.context, run.progress
    progress.resumed = seen.phase not in UNDECIDED
    is_committed = seen.phase is Phase.COMMITTED
    patience = Patience.of(context)
    while True:
        try:
            seen = _wait_for_owner(run, seen, patience)
            while seen.phase is not Phase.COMMITTED:
                if run.record_only and seen.phase not in UNDECIDED:
                    _end_recorded(run, seen)
                    return
                seen = _step(run, seen, patience)
            is_own = is_committed or progress.record is not None
            _conclude(run, seen, Outcome.COMMITTED if is_own else by_another_process(context))
            return
        except StateChangedError as e:
            if e.now is None:
                remove_what_was_late(context)
                progress.outcome = say_what_became(context, seen, _nonce(run, seen))
                return
            seen = e.now


def _step(run: _Run, seen: Seen, patience: Patience) -> Seen:
    """Take the job from its state to a later one."""
    _note_phase(run, seen)
    run.known = seen
    try:
        match seen.phase:
            case Phase.OPEN:
                return _decide(run, seen, patience)
            case Phase.DECLARED:
                return wait_for_declaration(run.context, seen, patience)
            case Phase.RECORDED | Phase.SEALED:
                return _publish(run, seen)
    except (RayCommitterError, OSError) as e:
        run.progress.is_still_open = look_again(run.context, run.known, e)
        raise
    refuse_aborted(run.context, seen.phase)
    raise AssertionError(seen.phase)


def _wait_for_owner(run: _Run, seen: Seen, patience: Patience) -> Seen:
    """Wait until no other live process is at work on this job's commit; return the state then."""
    context = run.context
    _note_phase(run, seen)
    while seen.phase in (Phase.RECORDED, Phase.SEALED) and run.progress.record is None:
        other = read_other(context.store, context.job, context.now_milliseconds(), wants_beat=True)
        if other is None or other.known.state.stamp != seen.state.stamp:
            raise StateChangedError(read_state(context.store, context.job), seen)
        seen, other = other.known, patience.watch.judge(other)
        if not other.is_alive or other.owner.run == run.name:
            return seen
        if patience.is_over and not other.is_doubtful:
            raise busy(other)
        patience.wait()
    return seen


def _note_phase(run: _Run, seen: Seen) -> None:
    """Note whether the commit has begun, perhaps by another process."""
    run.progress.is_begun = run.progress.is_begun or seen.phase not in UNDECIDED


def look_again(context: JobContext, known: Seen | None, error: Exception) -> bool:
    """Look at the job after a failure; True if it is as it was `known`, False if that cannot be read.

    `StateChangedError` if the failure only means that another process has continued the job.
    """
    try:
        now = read_state(context.store, context.job)
    except OSError as e:
        if isinstance(error, CommitStateUnknownError):
            return False
        raise CommitStateUnknownError(
            f"{e.filename or context.job.directory}: {e.strerror or e}, so it is not known whether "
            f"another process has continued the job",
            "everything was kept: fix only that, and run the same command",
        ) from error
    if now is None or (now.phase not in UNDECIDED and now != known):
        raise StateChangedError(now, known) from error
    return True


def _decide(run: _Run, seen: Seen, patience: Patience) -> Seen:
    """Take the job from open to recorded."""
    context, progress = run.context, run.progress
    _check_intent(context, seen)
    run.known = seen = find_table_late(context.store, context.job, seen)
    if context.options.keep_replaced:
        require_table(context.job, seen)
    for _ in range(LOADS):
        try:
            loaded = _load_checked(run, seen)
            if not run.record_only:
                _start_workers(context)  # a cluster without room is found before the record
            with context.stage(names.SAVE_RECORD):
                recorded, record = record_job(
                    context,
                    seen,
                    loaded,
                    run.name,
                    load=partial(_load, run, None, seen.state),
                    replaced_roots=run.replaced_roots,
                    allowed_roots=run.allowed_roots,
                    patience=patience,
                    goes_on=not run.record_only,
                    run_id=run.run_id,
                )
        except ManifestsChangedError:
            now = read_state(context.store, context.job)
            if now is None or now.phase is not Phase.OPEN or now.state.stamp != seen.state.stamp:
                raise StateChangedError(now, seen) from None
            seen = now
            continue
        run.loaded, progress.record = loaded, record
        context.journal.add(loaded.statistics)  # once, however often they were loaded
        _tell_loaded(run, record)
        return recorded
    raise changed_too_often(context)


def _load_checked(run: _Run, seen: Seen) -> LoadedManifests:
    """Load and check the manifests; `ManifestsChangedError` if they change during that time."""
    context = run.context
    load = partial(_load, run, None, seen.state)
    _start_workers(context, first_only=True)
    listing = listed_attempts(context, run.task_attempts)
    with context.stage(names.LOAD_MANIFESTS), listing as attempts:
        loaded = load_unchanged(context, lambda: load_with_coordinator(context, load))
    with context.stage(names.PREFLIGHT):
        with_coordinator(context, lambda: preflight(context, loaded, run.allowed_roots), load)
        refuse_unsaved(context, loaded, attempts)
    return loaded


def _start_workers(context: JobContext, *, first_only: bool = False) -> None:
    """Wait for all workers, or the first; a stage of its own where they are processes to be started."""
    if context.executor.starts_workers:
        with context.stage(names.START_WORKERS):
            context.executor.start_workers(first_only=first_only)


def _load(run: _Run, record: CommitRecord | None, state: JobState) -> LoadedManifests:
    statuses, run.listed = run.listed, None
    return load_manifests(
        run.context,
        record,
        run.roots(record),
        stamp=state.stamp,
        statuses=statuses,
        for_table=record is None and state.table is not None,
    )


def _end_recorded(run: _Run, seen: Seen) -> None:
    run.known = seen
    refuse_aborted(run.context, seen.phase)
    try:
        run.progress.record = run.progress.record or _load_record(run, seen)
    except (RayCommitterError, OSError) as e:
        run.progress.is_still_open = look_again(run.context, run.known, e)
        raise
    run.progress.outcome = Outcome.RECORDED


def _check_intent(context: JobContext, seen: Seen) -> None:
    """Refuse to append the output of a job that was meant to replace data, or to be refused where there
    is data: rows would double."""
    mode, intent, work = context.options.mode, seen.state.intent, context.options.table_work
    if (intent is Intent.FROM_LOG) is not (work is not None):
        raise IncompleteJobError(
            f"{context.job.directory}: this job was made from the log of its table, but its process "
            f"ended before it recorded which files it replaces",
            f"give it up with: {abort_command(context.store, context.job)}; then run the command that "
            f"made it again",
        )
    if context.options.committed_tasks is not None:  # the driver says it
        return
    if intent is Intent.REPLACES and not mode.replaces:
        raise IncompleteJobError(
            f"{context.job.directory}: this job was to replace data, but its driver ended before it "
            f"recorded which",
            "abort the job and run the application again, or commit the job with mode OVERWRITE, or "
            "OVERWRITE_PARTITIONS for the partitions that it writes to",
        )
    if intent is Intent.REFUSED and mode is ConflictMode.APPEND:
        raise IncompleteJobError(
            f"{context.job.directory}: this job was not to be committed where there is data, but its "
            f"driver ended before that was checked",
            "abort the job and run the application again, or commit the job with mode ERROR, or "
            "ERROR_PARTITIONS for the partitions that it writes to",
        )


def _publish(run: _Run, seen: Seen) -> Seen:
    """Take the job from recorded to committed: make its output visible."""
    progress = run.progress
    record, loaded = progress.record, run.loaded
    if record is None or loaded is None:
        record, loaded = _take_over(run, seen), None
    context = run.context.as_recorded(record)
    reload = partial(_load, run, record, seen.state)
    progress.renamed = Renamed()
    with heartbeat(context, run.name, progress.renamed, at_once=progress.resumed):
        loaded = loaded or _load_again(run, record, reload)
        if seen.phase is Phase.RECORDED:
            move_files(context, progress, record, loaded, reload)
            _note_partitions(context, progress, record, reload)
            if record.is_sealed:
                run.known = seen = seal(context, seen, record)
                _commit_in_table(context, progress, record)
                keep_old_files(context, progress, seen, record)
            if record.replaces:
                replace_old_files(context, progress, record, loaded, Pass.NAMESAKES)
        else:
            _commit_in_table(context, progress, record)
            keep_old_files(context, progress, seen, record)
            if not ends_with_its_commit(record):
                move_files(context, progress, record, loaded, reload, is_sealed=True)
            _note_partitions(context, progress, record, reload)
            if record.replaces:
                replace_old_files(context, progress, record, loaded, None)
        end_in_table(context, record, progress.in_table)
        context.journal.add(count(names.FILES_COMMITTED, progress.renamed.files))
        context.journal.add(count(names.BYTES_COMMITTED, progress.renamed.bytes))
        if recovered := progress.renamed.proved.total():
            context.journal.add(count(names.RENAME_RECOVERED, recovered))
        with context.stage(names.COMMIT_POINT):
            committed, run.success = decide_committed(context, progress, seen, record)
            return committed


def _note_partitions(
    context: JobContext, progress: CommitProgress, record: CommitRecord, load: Callable[[], object]
) -> None:
    if context.options.catalog_table is not None:
        note = partial(touched_directories, context, record)
        progress.partitions = with_coordinator(context, note, load)


def _commit_in_table(context: JobContext, progress: CommitProgress, record: CommitRecord) -> None:
    progress.in_table = commit_in_table(context, record, is_resumed=progress.resumed)
    if progress.in_table is not None:
        progress.table_version = progress.in_table.version


def _take_over(run: _Run, seen: Seen) -> CommitRecord:
    """Load the record that an earlier run, or another process, has written."""
    record = _load_record(run, seen)
    refuse_foreign_paths(run.context, record, (*run.replaced_roots, *run.allowed_roots))
    run.progress.record, run.progress.resumed = record, True
    return record


def _load_again(run: _Run, record: CommitRecord, load: Callable[[], LoadedManifests]) -> LoadedManifests:
    """Load what such a record names; a heartbeat shows already that this run is at work."""
    context = run.context
    _start_workers(context, first_only=True)
    with context.stage(names.LOAD_MANIFESTS):
        loaded = load_with_coordinator(context, load)
    run.loaded = loaded
    context.journal.add(loaded.statistics)
    _tell_loaded(run, record)
    return loaded


def _load_record(run: _Run, seen: Seen) -> CommitRecord:
    return load_commit_record(run.context.store, run.context.job, seen.state)


def _tell_loaded(run: _Run, record: CommitRecord) -> None:
    run.context.emit(JobLoaded(len(record.manifests), record.files, record.bytes, run.progress.resumed))


def _conclude(run: _Run, seen: Seen, outcome: Outcome) -> None:
    """Do the rest after the job is committed; a failure here loses nothing."""
    progress = run.progress
    progress.outcome = outcome
    try:
        record = progress.record or _load_record(run, seen)
    except RecordGoneError:  # the clean-up, which comes last, has begun
        _tell_of_no_success(run.context)
        if end_other_attempts(run.context):
            cleanup_job(run.context, seen, None)
        return
    context = run.context.as_recorded(record)
    progress.record = record
    delete_old_files(context, record)
    if progress.table_version is None:
        progress.table_version = version_of(context, record)
    save_checkpoint_if_due(context, record, progress.table_version)
    export_table(context, record, progress.table_version)
    is_last = _mark(run, context, record, seen) if record.mark_success else end_other_attempts(context)
    if context.options.cleanup and is_last:
        with context.stage(names.CLEANUP, cancellable=False):
            cleanup_job(context, seen, record)


def _tell_of_no_success(context: JobContext) -> None:
    """Report a missing ``_SUCCESS``, in case the record was not deleted by this job's clean-up."""
    path = context.job.success
    if context.options.mark_success and context.store.get_status(path) is None:
        context.notice(
            f"{path}: is not there, and its content is lost with the commit record; all files of the "
            f"job are in place, so make an empty one if another program waits for it"
        )


def _mark(run: _Run, context: JobContext, record: CommitRecord, seen: Seen) -> bool:
    """Put ``_SUCCESS`` in place and, at the same time, end the other attempts; whether these ended."""
    with context.stage(names.SAVE_SUCCESS, cancellable=False):
        written = run.success or write_success_file(
            context, record, run.progress.renamed.sample, table_version=run.progress.table_version
        )

        def replace_success() -> None:
            delete_old_success(context, record)
            save_success_file(context, written, seen)

        steps: list[Callable[[], Any]] = [partial(end_other_attempts, context), replace_success]
        is_last, _ = context.at_once(lambda step: step(), steps)
        return bool(is_last)


def _nonce(run: _Run, seen: Seen) -> str | None:
    """The nonce of the commit record, if this run knows one."""
    return run.progress.record.nonce if run.progress.record else seen.state.record


def _store_failure(context: JobContext, progress: CommitProgress, cause: OSError) -> RayCommitterError:
    """The error for the caller of a commit in which a request failed."""
    where = context.located(cause.filename or context.job.directory)
    what = cause.strerror or cause
    if not progress.is_decided:
        return CommitAbortedError(
            f"{where}: {what}", "no file was moved: fix that and run the same command"
        )
    return CommitStateUnknownError(
        f"{where}: {what}",
        "the commit stopped in the middle and kept everything: fix that and run "
        "the same command to finish it",
    )


def _undecided(
    context: JobContext, progress: CommitProgress, error: RayCommitterError
) -> RayCommitterError:
    """The error; for a job that is not recorded, it also says if the job has a claim in a log."""
    return error if progress.is_decided else say_that_claim_stays(context, error)


def _looks_harmless(error: RayCommitterError) -> bool:
    """Whether an error says that nothing was changed, which is always true only for an aborted job."""
    return error.exit_code == 1 and not isinstance(error, CommitAbortedError)


def _as_unknown(error: RayCommitterError) -> CommitStateUnknownError:
    """Convert an error that is harmless before the record, but after it stops a commit in the middle."""
    kept = "the commit has begun and kept everything: run the same command to finish it"
    return CommitStateUnknownError(error.what, "; ".join((*error.args[1:], kept)))
