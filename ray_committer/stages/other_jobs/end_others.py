"""Jobs whose commit has begun and whose process has died: which are ended before another job, and how.

Usually the other job is the same application, run again. It must not add its rows beside the rows of the
first run, and it need not wait for a person if the output of the first run does not matter any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial

from ray_committer.errors import (
    CommitAbortedError,
    CommitCancelledError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    CommitterBusyError,
    JobNotFoundError,
    RayCommitterError,
    mark,
    why,
)
from ray_committer.job_files import owners
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.job_state import StateChangedError, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.read_job import last_sign
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep
from ray_committer.options import Unfinished
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import UNFINISHED, Phase
from ray_committer.stores.base import StoreOperations

_log = logging.getLogger(__name__)

ROUNDS = 5
"""How often unfinished jobs are ended and looked for again: others can end them or die meanwhile."""

_BY_OTHERS = (
    StateChangedError,
    CommitterBusyError,
    CommitRecordExistsError,
    CommitAbortedError,
    JobNotFoundError,
)
"""Errors after which a job is not as it was seen: another process works on it, or has ended it."""


class End(StrEnum):
    """How an unfinished job is ended."""

    FINISH = "finish"
    """Its commit is finished, as by ``ray-committer commit``."""
    UNDO = "undo"
    """It is given up, as by ``ray-committer abort --undo``."""
    ABORT = "abort"
    """It is not recorded, and is aborted, as by ``ray-committer abort``."""


_WAS = {End.FINISH: "finished", End.UNDO: "given up", End.ABORT: "aborted"}

EndJob = Callable[[JobStatus, End], list[str]]
"""Ends a job and returns the notices of that; `StateChangedError` if the job is not as it was seen."""
Choice = tuple[JobStatus, End | None]
"""A job, and how it is ended; None if it is not."""


def cannot_end(rival: JobStatus, how: End) -> list[str]:
    """The `EndJob` of callers that refuse every unfinished job."""
    raise NotImplementedError(f"{rival.job.directory}: {how}")


def end_of(
    rival: JobStatus,
    unfinished: Unfinished | None,
    roots: Sequence[str],
    *,
    finish_others: bool = False,
    run_id: str | None = None,
) -> End | None:
    """How a job is ended before another one that replaces all that is in `roots`; None if it is not. By
    default, a job with the same `run_id` is finished, and one whose whole output is replaced is
    superseded: to finish it would change what readers see to the output of a run that is repeated. A
    sealed job is given up only on demand, and if its record allows it; an undo can only be finished.
    With `finish_others`, a job is finished that would not be ended without it."""
    if rival.phase not in UNFINISHED or rival.is_alive or rival.job.is_gone:
        return None
    if unfinished is None and run_id is not None and rival.declaration.run_id == run_id:
        unfinished = "finish"
    how = None if unfinished == "refuse" else _end_as_usual(rival, unfinished, roots)
    is_finished = finish_others and rival.phase is not Phase.UNDOING
    return how or (End.FINISH if is_finished else None)


def _end_as_usual(rival: JobStatus, unfinished: Unfinished | None, roots: Sequence[str]) -> End | None:
    if rival.phase is Phase.UNDOING:
        return End.UNDO
    if unfinished == "finish":
        return End.FINISH
    is_replaced = rival.claim.is_within(roots)
    if unfinished is None and (rival.is_deferred or not is_replaced):
        return None
    if rival.phase is Phase.SEALED and not (unfinished and rival.is_undoable):
        return End.FINISH if is_replaced else None
    return End.UNDO


def unfinished_beside(
    store: StoreOperations,
    job: JobAttempt,
    unfinished: Unfinished | None,
    rivals: Sequence[JobStatus],
    *,
    replaces: Sequence[str],
    must_be_empty: bool,
    finish_others: bool = False,
    run_id: str | None = None,
) -> list[Choice]:
    """The `rivals`, other jobs at a job's destination, beside which it must not go on, and their ends.
    They write where the job replaces data, or do not let it write at all. A job that also writes
    elsewhere goes on beside none: where is known only after its tasks."""
    destination = store.real_path(job.destination)
    roots = [store.real_path(root) for root in replaces if root != job.any_partition]
    excludes = [*roots, destination] if must_be_empty else roots
    is_known = must_be_empty or 0 < len(replaces) == len(roots)
    appends = not replaces and not must_be_empty

    def is_in_the_way(rival: JobStatus) -> bool:
        if appends and rival.is_passed_by_appends:
            return False
        claim = rival.claim
        is_sure = claim.meets(excludes) or claim.keeps_out_of(destination)
        return is_sure or (rival.is_unfinished and not is_known)

    stopped = [rival for rival in rivals if rival.phase in UNFINISHED and not rival.is_alive]
    end = partial(end_of, unfinished=unfinished, roots=roots, finish_others=finish_others, run_id=run_id)
    return [(rival, end(rival)) for rival in stopped if is_in_the_way(rival)]


def none_refused(
    choices: Iterable[Choice], refuse: Callable[[JobStatus], CommitConflictError]
) -> list[tuple[JobStatus, End]]:
    """The jobs to end; raise the error of `refuse` if one of them must not be ended."""
    chosen = []
    for rival, how in choices:
        if how is None:
            raise refuse(rival)
        chosen.append((rival, how))
    return chosen


def would_repeat(rival: JobStatus) -> str:
    """Why a job must not add its rows beside the other one; only a person knows whose job that is."""
    if not rival.claim.writes:
        return "and it has to end first"
    why = "and if this job repeats it, its rows would be there twice"
    if rival.phase is Phase.RECORDED:
        why += (
            ". So give the other job up if it is an earlier run of this application, and finish it if "
            "it is another application's"
        )
    return why


def refusal(
    store: StoreOperations, rival: JobStatus, unfinished: Unfinished | None, *, then: str, why: str
) -> CommitConflictError:
    """The error for a job that another one stops: how to end that, what to do `then`, `why` not both."""
    what, advice = finish_first(store, rival)
    if rival.phase is Phase.SEALED and not rival.is_undoable and unfinished == "supersede":
        why += "; files that it replaces may be gone already, so it can no longer be given up"
    return CommitConflictError(
        what, f"{advice}; then {then}. Nothing was changed: the other job {_writes(rival)}, {why}"
    )


def plan_text(store: StoreOperations, rival: JobStatus, how: End | None) -> str:
    """What would be done about an unfinished job: how it would be ended, or that it refuses another."""
    what, advice = finish_first(store, rival)
    if how is None:
        return f"{what}; this job would be refused: {advice}"
    return f"{what}; it would be {_WAS[how]} first"


def end_jobs(
    store: StoreOperations,
    chosen: Sequence[tuple[JobStatus, End]],
    end: EndJob,
    pause: Sleep = waiting.sleep,
) -> Iterator[str]:
    """End jobs; yield a text for each as soon as it is ended, and the notices of that. A job that
    another process continues or ends is left alone; so is one that gives a sign of life while it is
    watched, which is necessary if it is not certain that its process has ended.
    `CommitStateUnknownError` if a job cannot be ended; it then is as the command would have left it."""
    for rival, how in _silent(store, chosen, pause):
        yield from _end(store, rival, how, end)


def _silent(
    store: StoreOperations, chosen: Sequence[tuple[JobStatus, End]], pause: Sleep
) -> list[tuple[JobStatus, End]]:
    """The jobs that give no sign of life by this machine's clock: a paused process may be late."""
    # The sign is compared with itself after a pause, never with this machine's time (D10). An undo that
    # is at work can be joined.
    doubtful = {
        id(rival): last_sign(store, rival.job)
        for rival, _ in chosen
        if rival.phase is not Phase.UNDOING and not rival.has_ended
    }
    if doubtful:
        _log.info("watching %d jobs for %g s: are they at work?", len(doubtful), owners.DEAD_SECONDS)
        pause(owners.DEAD_SECONDS)
    return [
        (rival, how)
        for rival, how in chosen
        if id(rival) not in doubtful or last_sign(store, rival.job) == doubtful[id(rival)]
    ]


def _end(store: StoreOperations, rival: JobStatus, how: End, end: EndJob) -> list[str]:
    try:
        notices = end(rival, how)
    except CommitCancelledError:
        raise
    except _BY_OTHERS:
        return []
    except (RayCommitterError, OSError) as e:
        current = read_state(store, rival.job)
        # Whoever has removed it, or set it up again, has ended it; the failure no longer matters.
        if current is None or current.state.stamp != rival.known.state.stamp:
            return []
        raise _not_ended(store, replace(rival, seen=current), how, e) from e
    done = (
        f"{mark(rival.job.directory)}: job {rival.job.job_id} was {_WAS[how]} before this job, because "
        "its commit had begun and no process was at work on it"
    )
    return [done, *notices]


def _not_ended(
    store: StoreOperations, rival: JobStatus, how: End, error: RayCommitterError | OSError
) -> CommitStateUnknownError:
    cause = error.parts[0] if isinstance(error, RayCommitterError) else why(error)
    advice = f"{error.parts[1]}; " if isinstance(error, RayCommitterError) else ""
    return CommitStateUnknownError(
        f"{mark(rival.job.directory)}: job {rival.job.job_id} was to be {_WAS[how]} before this job, "
        f"and that failed: {cause}",
        f"{advice}this job has changed nothing, and the other one can be ended by hand: "
        f"{finish_first(store, rival)[1]}",
    )


def _writes(rival: JobStatus) -> str:
    claim = rival.claim
    paths = claim.writes or claim.excludes
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{'writes to' if claim.writes else 'replaces'} {', '.join(map(mark, paths[:3]))}{more}"


def finish_first(store: StoreOperations, rival: JobStatus) -> tuple[str, str]:
    """What is not finished, a commit, its undo or an abort, and the command for each way to end it."""
    job = rival.job
    if job.is_gone:
        place = new_job_attempt(job.destination, job.job_id, job.number)
        return (
            f"{mark(job.directory)}: the commit of job {job.job_id} has begun, but a process that was "
            "paused moved it here by mistake",
            f"move it back to {mark(place.directory)}, then finish it with: "
            f"{commit_command(store, place)}",
        )
    if rival.phase is Phase.UNDOING:
        what, command = "the commit is being undone", abort_command(store, job, undo=True)
    elif rival.phase is Phase.ABORTED:
        what, command = "the job is aborted, but still there", abort_command(store, job)
    else:
        what, command = "the commit has begun but not ended", commit_command(store, job)
    if rival.is_undoable:
        command += f", or give it up with: {abort_command(store, job, undo=True)}"
    return (
        f"{mark(job.directory)}: {what} (job {job.job_id}, {rival.phase})",
        f"finish it with: {command}",
    )
