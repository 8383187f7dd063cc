"""Hold the files of tasks while a job is declared: freeze them, and look at them where they are then."""

from __future__ import annotations

from functools import partial

from ray_committer.job_files.job_state import Seen, StateChangedError
from ray_committer.stages.checks.sources import SourcesLook, look_at_sources
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import declare_job
from ray_committer.stages.freeze_manifests import freeze_manifests
from ray_committer.stages.freeze_tasks import freeze_tasks, holds_tasks, is_own, take_over
from ray_committer.stages.load_manifests import ManifestsChangedError
from ray_committer.stages.run.decision import Decision


def freeze_and_declare(decision: Decision, last: Seen) -> Seen:
    """Declare the job and, in parallel, freeze its manifests, and the files of its tasks if all tasks
    that count had saved theirs before."""
    context, run, claim = decision.context, decision.run, decision.claim
    taken: list[JobContext] = []

    def freeze() -> None:
        # In this order: a task that ran again can write its last file and save while both are renamed.
        # Then its manifest would count, and its file would be left.
        freeze_manifests(context, decision.loaded)
        # All tasks that count had saved before: none must be looked for in what is frozen (R1).
        is_known = decision.loaded.listing.is_named and not context.job.is_frozen
        if is_known and (frozen := freeze_tasks(context, last.state)):
            taken.append(frozen)

    prepared, run.prepared = run.prepared, None  # no nonce is used twice
    declare = partial(declare_job, context, last, claim, run.name, decision.run_id, prepared=prepared)
    # The freeze can fail although the declaration stands: withdrawn again, it has decided nothing.
    declared: Seen
    try:
        _, declared = context.do_at_once(freeze, declare)
    except StateChangedError:  # perhaps the job is over, and these are files of a later one of its id
        for frozen in taken:
            is_own(context, last.state, frozen.job, context.job)
        raise
    for frozen in taken:
        run.context, run.held = frozen, declared.state.nonce
    return declared


def look_at_held(decision: Decision, current: Seen) -> SourcesLook:
    """Look at the files of tasks, which this run holds from now on. `ManifestsChangedError` if another
    one holds them, by now or meanwhile."""
    hold_tasks(decision, current)
    context, state = decision.context, current.state
    look: SourcesLook
    is_jobs = partial(is_own, context, state, context.job, context.job.with_tasks_in())
    is_held, look = context.do_at_once(is_jobs, partial(look_at_sources, context, decision.loaded))
    if not is_held or (look.errors and not holds_tasks(context, state)):
        raise ManifestsChangedError  # another run has the files
    return look


def hold_tasks(decision: Decision, current: Seen) -> None:
    """Freeze the files of tasks under the declaration of the `current` state, if that was not done; from
    an earlier run they are taken over. `ManifestsChangedError` if another has frozen them meanwhile."""
    run, state, listing = decision.run, current.state, decision.loaded.listing
    if run.held == state.nonce:
        return
    is_known = listing.is_named or listing.is_frozen
    held = take_over(run.context, current) if is_known else freeze_tasks(run.context, state)
    if held is None:  # attempts without a manifest must be looked for where the files are (R1)
        raise ManifestsChangedError
    run.context, run.held = held, state.nonce
