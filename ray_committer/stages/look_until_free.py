"""Look for other jobs, and at the data, until nobody is in the way of a declared job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.job_tree import list_tree
from ray_committer.protocol.claims import Obstacle
from ray_committer.protocol.state import Phase
from ray_committer.stages.checks.sources import SourcesLook
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import declare_job, give_way, look_around
from ray_committer.stages.freeze_manifests import are_current
from ray_committer.stages.hold_tasks import look_at_held
from ray_committer.stages.load_manifests import LoadedManifests, ManifestsChangedError
from ray_committer.stages.old_data.old_success import find_old_success
from ray_committer.stages.other_jobs.other_attempts import abort_older_attempts
from ray_committer.stages.preflight import OldFiles
from ray_committer.stages.run.decision import Decision

T = TypeVar("T")


def look_until_free(decision: Decision, current: Seen) -> tuple[Seen, OldFiles, bool]:
    """Look until nobody is in the way; return state, old files, and whether nobody was met before."""
    run, context, claim, run_id = decision.run, decision.context, decision.claim, decision.run_id
    below: tuple[str, ...] = ()
    is_first = True
    # It ends with an error when patience is over, or with a look, a turn and a listing that all hold for
    # one and the same declared state (D3).
    while True:
        if current.phase is Phase.OPEN:  # withdrawn since the last look: who has looked since saw nobody
            current = declare_job(context, current, claim, run.name, run_id)
        outcome = _look_and_list(decision, current, below)
        match outcome:
            case Obstacle():
                # The claim is not in the log while this job waits, and its declaration is withdrawn: so
                # of two jobs that wait for each other, one goes on.
                current = decision.turn.wait(current, outcome, run.patience)
            case OldFiles() if outcome.destinations == below:
                # Every directory below with jobs has been looked into in this very round.
                return current, outcome, is_first
            case OldFiles():  # jobs were set up among the old files: look there, then list again
                below = outcome.destinations
            case _:
                # The other jobs name directories by their real paths: a root can have two names (R17).
                real = [context.store.real_path(root) for root in decision.roots.replaced]
                patience = run.patience
                current = give_way(context, current, claim, outcome, patience, roots=real, run_id=run_id)
                is_first = False  # a new record must be written, with the new start time


def _look_and_list(
    decision: Decision, current: Seen, below: Sequence[str]
) -> Sequence[JobStatus] | Obstacle | OldFiles:
    """One round: the jobs in the way, or the claim whose turn is first, or the old files."""
    context, claim, turn = decision.context, decision.claim, decision.turn
    look = partial(look_around, context, claim, below, turn.choose)
    check = partial(_check, decision, current)
    if decision.is_known:
        # No old file gives way, so what is at the destination does not change the record: no order is
        # needed, and the look takes no time of its own.
        rivals, checked = context.do_at_once(look, check)
        return rivals or _or_raise(checked)
    # The look finds jobs without a claim, and ends those that have stopped. The claim comes after it,
    # since it stays in the log when the declaration is withdrawn. The list comes after the claim: what
    # others put in place later waits for this job's turn to end.
    return look() or turn.take() or _or_raise(check())


def _check(decision: Decision, current: Seen) -> OldFiles | Exception:
    """The old files where the job writes, or the error to raise if no other job is in the way: what
    looks like an obstacle can be a commit at work."""
    context, loaded = decision.context, decision.loaded
    checks: list[Callable[[], object]] = [
        partial(decision.look_at_data, loaded),
        partial(find_old_success, context, decision.roots.replaced),
        partial(look_at_held, decision, current),
    ]
    try:
        # Beside each other, since none changes what another sees. An error of one is kept until it is
        # certain that the manifests are the frozen ones: it may be about a file of an earlier one.
        is_current, *checked = context.do_at_once(
            partial(_is_still_alone, context, loaded), *(partial(_tried, check) for check in checks)
        )
        if not is_current:
            return ManifestsChangedError()
        old: OldFiles
        old, success, look = checked
        if isinstance(look, SourcesLook) and look.errors:
            decision.look_at_data(replace(loaded, source_errors=look.errors))
        if error := next((result for result in checked if isinstance(result, Exception)), None):
            return error
        decision.plan(look, old)
        return replace(old, success=success)
    except (OSError, RayCommitterError) as e:
        return e


def _tried(check: Callable[[], T]) -> T | Exception:
    try:
        return check()
    except (OSError, RayCommitterError) as e:
        return e


def _is_still_alone(context: JobContext, loaded: LoadedManifests) -> bool:
    """Abort the older attempts of the job; whether no task has saved a manifest since the load."""
    # After the declaration: an attempt that is set up later sees it and gives way (D8), and a task that
    # saves its manifest now waits for the decision (D4).
    tree = list_tree(context.store, context.job.job_directory)
    abort_older = partial(abort_older_attempts, context.store, context.job, tree)
    _, is_current = context.do_at_once(abort_older, partial(are_current, context, loaded, tree))
    return bool(is_current)


def _or_raise(checked: OldFiles | Exception) -> OldFiles:
    if isinstance(checked, OldFiles):
        return checked
    raise checked
