"""What a failure of a commit means: for the job, which another process may have continued, and for the
caller, who must learn whether files are visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from ray_committer.errors import (
    PARTLY,
    UNCHANGED,
    CommitAbortedError,
    CommitStateUnknownError,
    CommitterBusyError,
    Promise,
    RayCommitterError,
    failed_request,
    mark,
)
from ray_committer.events import CommitStarted
from ray_committer.job_files.job_state import Seen, StateChangedError, read_state
from ray_committer.job_files.owners import at_work
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import Patience
from ray_committer.stages.freeze_tasks import holds_tasks
from ray_committer.stages.load_manifests import LOADS, ManifestsChangedError, changed_too_often
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stages.run.heartbeat import signing_off
from ray_committer.stages.run.throttling import note_limit
from ray_committer.stages.save_summary_report import save_summary_report


@contextmanager
def reporting(run: CommitRun, on_result: Callable[[CommitResult], None]) -> Iterator[None]:
    """Make the result of the run in the block, also if it fails; an error says what was changed."""
    context, progress = run.context, run.progress
    failure: Exception | None = None
    job, executor = context.job, context.executor.name
    context.emit(CommitStarted(context.url, job.job_id, job.number, executor))
    try:
        with context.stage(names.COMMIT_JOB), at_work(run.name), signing_off(context, run.name):
            if context.store.capabilities.risk is not None:
                context.notice(context.store.capabilities.risk)
            yield
    except OSError as e:
        kind, advice = _STOPPED[PARTLY if progress.is_decided else UNCHANGED]
        failure = _undecided(run, kind(failed_request(e, job.directory), advice))
        raise failure from e
    except RayCommitterError as e:
        # "Nothing was changed" is true only before the record: after it, files may be in place (D9).
        is_false = progress.is_decided and e.promise is UNCHANGED
        # Of an aborted job, nothing is ever changed.
        if is_false and not isinstance(e, CommitAbortedError):
            kind, advice = _STOPPED[PARTLY]
            failure = kind(e.parts[0], "; ".join((*e.args[1:], advice)))
        else:
            failure = _undecided(run, e)
        raise failure from e.__cause__
    except Exception as e:
        failure = e
        raise
    finally:
        limit = note_limit(context)
        if failure is not None or progress.outcome is Outcome.COMMITTED:
            sample, committed = progress.renamed.sample, progress.committed_anyway(failure)
            save_summary_report(context, progress.record, sample, failure, committed=committed)
        run.result = progress.result(context, failure, limit)
        on_result(run.result)


@contextmanager
def looking_again(run: CommitRun, known: Seen) -> Iterator[None]:
    """Look at the job again after a failure of a step that began at the state `known`.
    `StateChangedError` if another process has continued it, or manifests must be loaded again."""
    context, progress = run.context, run.progress
    try:
        yield
    except ManifestsChangedError:
        # Tasks that go on saving manifests could make a commit load for ever.
        run.loads += 1
        if run.loads == LOADS:
            raise changed_too_often(context) from None
        raise StateChangedError(read_state(context.store, context.job), known) from None
    except (RayCommitterError, OSError) as e:
        # A job that is given up is never committed, whoever takes its directory away by now.
        if known.phase not in (Phase.UNDOING, Phase.ABORTED):
            progress.is_still_open = look_again(context, known, e)
        if known.phase in (Phase.RECORDED, Phase.SEALED) and _is_overtaken(run, known):
            _give_way(run, known)
        raise


def _is_overtaken(run: CommitRun, known: Seen) -> bool:
    """Whether another run has taken the files of tasks from this one, which now reaches none of them."""
    has_had_them = run.held is not None or run.has_taken_over
    try:
        return has_had_them and not holds_tasks(run.context, known.state)
    except OSError as e:
        raise _not_known(run.context, e) from e  # what has failed is perhaps no error at all


def _give_way(run: CommitRun, known: Seen) -> NoReturn:
    """Leave the commit to the run that has taken it over: `StateChangedError` once that one has gone on
    with it. `CommitterBusyError` if that takes too long; no run takes a commit over twice."""
    context, run.has_taken_over = run.context, True
    run.stop_beating()  # the sign of life is of the other run from now on
    patience = Patience.of(context)  # the other run begins only now
    while (current := read_state(context.store, context.job)) == known and not patience.is_over:
        patience.wait()
    if current != known:
        raise StateChangedError(current, known)
    raise CommitterBusyError(
        f"{mark(context.job.directory)}: another process has taken over the commit of this job",
        "everything was kept: wait for it, then run the same command, which finishes the commit",
    )


def look_again(context: JobContext, known: Seen, error: Exception) -> bool:
    """Look at the job after a failure; True if it is as it was `known`, False if that cannot be read.
    `StateChangedError` if the failure only means that another process has continued the job."""
    try:
        current = read_state(context.store, context.job)
    except OSError as e:
        if isinstance(error, CommitStateUnknownError):
            return False
        raise _not_known(context, e) from error
    if current is None or (current.phase not in UNDECIDED and current != known):
        raise StateChangedError(current, known) from error
    return True


def _not_known(context: JobContext, error: OSError) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{failed_request(error, context.job.directory)}, so it is not known whether "
        f"another process has continued the job",
        "everything was kept: fix only that, and run the same command",
    )


_STOPPED: dict[Promise, tuple[type[RayCommitterError], str]] = {
    UNCHANGED: (CommitAbortedError, "no file was moved: fix that and run the same command"),
    PARTLY: (
        CommitStateUnknownError,
        "the commit has begun and kept everything: fix that and run the same command to finish it",
    ),
}
"""What a commit may say that a failure has stopped, by what is true of the data then."""


def _undecided(run: CommitRun, error: RayCommitterError) -> RayCommitterError:
    """The error; for a job that is not recorded, it also says if the job has a claim in a log."""
    return error if run.progress.is_decided else run.turn.explain(error)
