"""Commit a job: the order of the stages, beside earlier runs and other processes.

`_take_step` is the protocol: from each state of the job, the stages that lead to the next one. Each run
enters at the state that the job is in. If another process changes that state, the run goes on from the
new one (`follow_job`). So a commit that runs again is finished, and several at once act as one.
Source: Hadoop CommitJobStage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NoReturn

from ray_committer.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobNotFoundError,
    mark,
)
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.follow_job import follow_job
from ray_committer.job_files.job_state import Seen, adopt_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Intent, Phase
from ray_committer.stages.abort_job import abort_job
from ray_committer.stages.cleanup_job import remove_what_was_late
from ray_committer.stages.conclude_job import conclude_job
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import wait_for_declaration
from ray_committer.stages.other_jobs.ended_jobs import (
    by_another_process,
    finish_remnant,
    say_what_became,
)
from ray_committer.stages.publish_job import (
    create_directories,
    decide_committed,
    finish_moves,
    keep_old_files,
    move_files,
    remove_old_files,
    seal,
    validate_files,
)
from ray_committer.stages.record_job import record_job
from ray_committer.stages.rename_files import Pass
from ray_committer.stages.run.commit_run import (
    CommitRun,
    enter_state,
    load_open_job,
    open_recorded_job,
    own_record,
)
from ray_committer.stages.run.failure import looking_again, reporting
from ray_committer.stages.save_commit_record import refuse_aborted
from ray_committer.stages.turns.find_table import find_table_late, require_table
from ray_committer.stages.turns.run_once import (
    CommittedBefore,
    RunCommittedError,
    find_committed,
    key_of,
    run_id_of,
)
from ray_committer.stages.turns.turn import Turn
from ray_committer.tables.run_session import session_of
from ray_committer.work.load_ahead import LoadAhead


def commit_job(
    context: JobContext,
    state: JobStatus,
    *,
    replaced_roots: tuple[str, ...] = (),
    allowed_roots: tuple[str, ...] = (),
    record_only: bool = False,
    ahead: LoadAhead | None = None,
    on_result: Callable[[CommitResult], None] = lambda _: None,
) -> CommitResult:
    """Commit the job, or finish what an earlier run left; idempotent. `state` is the state of the job
    attempt as `read_job` saw it. With `record_only` the run stops after the commit record is written.
    `replaced_roots` and `allowed_roots` are paths on the store. `ahead` is what was loaded of the job's
    tasks while they ran. `on_result` gets the result."""
    run = CommitRun(context, state, replaced_roots, allowed_roots, record_only, ahead)
    with reporting(run, on_result), _doing_it_once(run):
        first = None if state.is_remnant else state.seen or adopt_state(context.store, context.job)
        if first is None:  # an earlier run, or another process, has ended it
            run.progress.outcome, run.progress.table_version = finish_remnant(context)
        else:
            with _alone(run, first):
                _commit(run, first)
    return run.result


def _commit(run: CommitRun, first: Seen) -> None:
    run.begin(first)
    with run.publishing:
        last, is_there = follow_job(first, partial(_take_step, run))
    if not is_there:
        run.progress.outcome = _say_what_became(run, last)
    elif last.phase is Phase.COMMITTED:
        conclude_job(run, last, is_found=first.phase is Phase.COMMITTED)
    else:
        run.progress.outcome = Outcome.RECORDED


def _take_step(run: CommitRun, current: Seen) -> Seen:
    """Take the job from the `current` state to the next one; return `current` if it is the last."""
    enter_state(run, current)
    with looking_again(run, current):
        match current.phase:
            case Phase.OPEN:  # nothing is decided, and tasks may still commit
                if (noted := _note_table(run.context, current)) is not current:
                    return noted
                loaded = load_open_job(run, current)
                return record_job(run, current, loaded)
            case Phase.DECLARED:  # another committer of this job decides it, or has died
                return wait_for_declaration(run.context, current, run.patience)
            case Phase.RECORDED | Phase.SEALED if run.record_only:
                own_record(run, current)
                return current
            case Phase.RECORDED:  # the record is the job: its files are moved, and no old file goes
                job = open_recorded_job(run, current)
                create_directories(job, Pass.NEW)
                move_files(job, Pass.NEW)
                validate_files(job, Pass.NEW)
                return seal(job, current) if job.record.is_sealed else decide_committed(job, current)
            case Phase.SEALED:  # all new files are in place: old ones give way
                job = open_recorded_job(run, current)
                run.progress.table_version = run.turn.commit()
                keep_old_files(job, current)
                finish_moves(job, current)
                remove_old_files(job)
                run.turn.end()
                return decide_committed(job, current)
            case Phase.COMMITTED:
                return current
            case Phase.UNDOING | Phase.ABORTED:
                return _refuse_given_up(run, current)


@contextmanager
def _doing_it_once(run: CommitRun) -> Iterator[None]:
    """If another job has done the work of the run id, give this one up, and say so."""
    context, progress = run.context, run.progress
    run.run_id = context.options.run_id if context.options.table_work is None else None
    try:
        yield
    except RunCommittedError as e:
        _answer(run, CommittedBefore(e.run.version, e.job_id))
    except (CommitAbortedError, CommitStateUnknownError, JobNotFoundError):
        if run.run_id is None or progress.record is not None:
            raise
        done = find_committed(context, run.run_id)  # another run may have given the job up
        if done is None:
            raise
        _answer(run, done)
    progress.run_id = run.run_id or (progress.record.run_id if progress.record else None)
    if progress.run_id is not None:
        jobs = {context.job.job_id, progress.committed_by or context.job.job_id}
        session_of(context.options.known_jobs).remember(key_of(context, progress.run_id), jobs)


def _answer(run: CommitRun, done: CommittedBefore) -> None:
    """Give the job up, and say that its work was committed before."""
    context, progress = run.context, run.progress
    progress.outcome, progress.table_version = Outcome.ALREADY_COMMITTED, done.version
    if done.job_id == context.job.job_id:  # another process has committed and removed it
        by_another_process(context)
        return
    abort_job(context)
    progress.committed_by = done.job_id
    context.notice(
        f"{mark(context.job.destination)}: run id {run.run_id} is committed already as version "
        f"{done.version}, by job {done.job_id}; the files of job {context.job.job_id} were removed"
    )


def _alone(run: CommitRun, first: Seen) -> AbstractContextManager[None]:
    """Keep other jobs of this session and run id waiting, so that they find what this one has done."""
    run.run_id = run_id_of(run.context, first) or run.run_id
    key = key_of(run.context, run.run_id) if run.run_id is not None else None
    return session_of(run.context.options.known_jobs).alone(key)


def _say_what_became(run: CommitRun, last: Seen) -> Outcome:
    """The outcome for a job that other processes have ended since it was in the state `last`."""
    record = run.progress.record
    try:
        # As set-up had it, and never read: it may have been gone from the start.
        if run.found.is_remembered and last is run.found.seen:
            outcome, run.progress.table_version = finish_remnant(run.context)
            return outcome
        return say_what_became(run.context, last, record.nonce if record else last.state.record)
    except CommitAbortedError:
        run.turn = Turn(run.context)  # who has aborted the job has ended its claim
        raise
    finally:
        remove_what_was_late(run.context)


def _refuse_given_up(run: CommitRun, current: Seen) -> NoReturn:
    if current.phase is Phase.ABORTED:
        run.turn.give_up(current.state)
        run.turn = Turn(run.context)
    refuse_aborted(run.context, current.phase)
    raise AssertionError(current.phase)


def _note_table(context: JobContext, current: Seen) -> Seen:
    """Refuse an open job that was meant for another mode; note the table of Hadoop's job."""
    _check_intent(context, current)
    noted = find_table_late(context.store, context.job, current)
    if context.options.keep_replaced:
        require_table(context.job, noted)
    return noted


def _check_intent(context: JobContext, current: Seen) -> None:
    """Refuse to append what was to replace data, or to be refused beside data: rows would double."""
    mode, intent, work = context.options.mode, current.state.intent, context.options.table_work
    if (intent is Intent.FROM_LOG) is not (work is not None):
        raise IncompleteJobError(
            f"{mark(context.job.directory)}: this job was made from the log of its table, but its "
            "process ended before it recorded which files it replaces",
            f"give it up with: {abort_command(context.store, context.job)}; then run the command that "
            f"made it again",
        )
    if context.options.committed_tasks is not None:  # the driver says it
        return
    if intent is Intent.REPLACES and not mode.replaces:
        raise IncompleteJobError(
            f"{mark(context.job.directory)}: this job was to replace data, but its driver ended before "
            "it recorded which",
            "abort the job and run the application again, or commit the job with mode OVERWRITE, or "
            "OVERWRITE_PARTITIONS for the partitions that it writes to",
        )
    if intent is Intent.REFUSED and mode is ConflictMode.APPEND:
        raise IncompleteJobError(
            f"{mark(context.job.directory)}: this job was not to be committed where there is data, but "
            "its driver ended before that was checked",
            "abort the job and run the application again, or commit the job with mode ERROR, or "
            "ERROR_PARTITIONS for the partitions that it writes to",
        )
