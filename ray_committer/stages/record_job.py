"""Decide a job: declare it, look for other jobs, list the files that it replaces, and record it.

Nothing is binding before the record: after any error the declaration is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from ray_committer.errors import RayCommitterError, mark
from ray_committer.job_files.job_state import Seen, advance_if_unchanged
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.job_tree import list_tree
from ray_committer.job_files.owners import nobody, owner_of
from ray_committer.job_files.read_job import read_other
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.claims import Obstacle
from ray_committer.protocol.paths import TASKS, parent
from ray_committer.protocol.record import Claim, CommitRecord, ReplacedFile
from ray_committer.protocol.state import Phase, new_nonce
from ray_committer.stages.checks.sources import SourcesLook, look_at_sources
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import declare_job, give_way, look_around
from ray_committer.stages.freeze_manifests import are_as_loaded, are_current, freeze_manifests
from ray_committer.stages.freeze_tasks import freeze_tasks, has_mark, holds_tasks, take_over
from ray_committer.stages.load_manifests import (
    LoadedManifests,
    ManifestsChangedError,
    name_packs,
    save_packs,
)
from ray_committer.stages.note_new_directories import note_new_directories
from ray_committer.stages.old_data.mode_roots import ModeRoots, claim_of, roots_of_mode
from ray_committer.stages.old_data.old_files_aside import make_places_aside
from ray_committer.stages.old_data.old_success import find_old_success, make_place_of_success
from ray_committer.stages.other_jobs.other_attempts import abort_older_attempts
from ray_committer.stages.plan_moves import plan_moves, with_same_rights
from ray_committer.stages.preflight import OldFiles, look_at_data
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stages.run.coordinator_loss import with_coordinator
from ray_committer.stages.save_commit_record import save_commit_record, write_commit_record
from ray_committer.stages.save_success_file import WrittenSuccess, write_small_success
from ray_committer.stages.sync_to_disk import sync_packs
from ray_committer.stages.turns.claim_table import begin_turn
from ray_committer.stages.turns.turn import Turn
from ray_committer.tables.other_tables import refuse_partitions_of_tables

T = TypeVar("T")


def record_job(run: CommitRun, last: Seen, loaded: LoadedManifests) -> Seen:
    """Decide an open job; return the recorded state. `RunCommittedError` if another job has done the
    work of the run id. `CommitConflictError` if another job is in the way for too long, or if data is in
    the way. `StateChangedError` if another process decides the job. `ManifestsChangedError` if a task
    has committed since the manifests were loaded; the job is then open again."""
    context = run.context
    with context.stage(names.SAVE_RECORD):
        try:
            recorded, record, decided = _decide(_prepare(run, last, loaded), last)
        except Exception:
            _withdraw_own(context, run.name)
            raise
    run.note_record(record, is_own=True)
    run.note_loaded(record, decided.loaded)
    return recorded


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is decided: the job's manifests, the directories that its mode is about, what it claims among
    all jobs, and its turn among the jobs of its table. `run_id` is what the job does once."""

    run: CommitRun
    loaded: LoadedManifests
    load: Callable[[], object]
    roots: ModeRoots
    claim: Claim
    turn: Turn
    run_id: str | None

    @property
    def context(self) -> JobContext:
        return self.run.context

    def look_at_data(self, loaded: LoadedManifests) -> OldFiles:
        """The old files where the job writes; an error names all obstacles, also those in `loaded`."""
        look = partial(look_at_data, self.context, loaded, self.roots, self.turn.before())
        allowed = self.run.allowed_roots
        return with_coordinator(self.context, partial(look, allowed_roots=allowed), self.load)

    def plan(self, look: SourcesLook, old: OldFiles) -> None:
        """Plan which directories go whole, if the files of tasks are frozen."""
        is_frozen = self.context.job.staging != TASKS
        plan = partial(plan_moves, self.context, look, old.there, moves_here=is_frozen)
        self.run.plan = with_coordinator(self.context, plan, self.load)

    @property
    def is_known(self) -> bool:
        """Whether the record is known before the look: the job replaces and claims nothing."""
        return not self.claim.excludes and not self.turn.is_in_log


def _prepare(run: CommitRun, last: Seen, loaded: LoadedManifests) -> _Decision:
    """All that the decision needs and that other jobs do not change."""
    context, allowed_roots, work = run.context, run.allowed_roots, run.context.options.table_work
    refuse_partitions_of_tables(context.store, (context.job.destination, *allowed_roots))
    load = partial(run.collect, loaded)
    roots = roots_of_mode(context, loaded, run.replaced_roots)
    run_id = work.run_id if work is not None else run.run_id
    claims = partial(claim_of, context, loaded, roots, allowed_roots)
    claim = with_coordinator(context, claims, load)
    _warn_of_network(context, claim)
    decision = _Decision(run, loaded, load, roots, claim, run.turn, run_id)
    if loaded.source_errors:
        # The sources belong to an earlier manifest, or another run has frozen them.
        if not are_as_loaded(context, loaded) or not holds_tasks(context, last.state):
            raise ManifestsChangedError
        decision.look_at_data(loaded)
    begin = partial(begin_turn, context, last.state, loaded, roots, run.name, run_id)
    run.turn = with_coordinator(context, begin, load)
    return replace(decision, turn=run.turn)


def _decide(decision: _Decision, current: Seen) -> tuple[Seen, CommitRecord, _Decision]:
    """Declare, look, list, record: in rounds, until one finds nobody in the way. So of jobs that must
    not be committed at the same time, only one is recorded, whatever they do between any two requests.

    1. *Declared before it looks.* A job looks at the others while its own declaration stands. Each of
       two jobs has declared before it looks, so the one that looks last sees the other.
    2. *Looked before it lists.* Old files are listed after a look that found nobody, and after the job's
       turn in the log has come. Otherwise a file that another job puts in place meanwhile is not listed,
       and its rows stay beside those that replace them.
    3. *Recorded from the declaration that looked.* The record consumes the declared state that stood
       during the look and the listing. If that was withdrawn, by whomever, others may have passed since.
    """
    with ExitStack() as noting:  # what it notes is there before anything is moved
        return _decide_noting(decision, current, noting)


def _decide_noting(
    decision: _Decision, current: Seen, noting: ExitStack
) -> tuple[Seen, CommitRecord, _Decision]:
    run, context = decision.run, decision.context
    planned = name_packs(decision.loaded)
    # What a job that replaces nothing records does not depend on what the looks find. No process reads a
    # pack or a record before a state names the record, so they are written beside all of this.
    record = _record(decision, planned, current, OldFiles())
    write = partial(_write_known, decision, record, planned)
    with context.beside(partial(_save, decision, planned), write) as written:
        current = _freeze_and_declare(decision, current)
        current, old, is_first = _look_until_free(decision, current)
        note = partial(note_new_directories, run.context, directories=_note_missing(run, old))
        if decision.is_known:
            noting.enter_context(context.beside(partial(note, record)))
    context = run.context  # which knows by now where the files of tasks are
    saved = cast("LoadedManifests", written[0])
    # Only now is it known which old files there are; after the record it is too late to refuse (D5).
    decision.turn.refuse_what_cannot_be_kept(old)
    success: object = None
    notes: list[Callable[[], object]] = []
    is_as_planned = decision.is_known and is_first and old.success is None
    if not is_as_planned or saved.packs != planned.packs:
        # It has a new nonce, so no state ever names the record that was written beside the declaration.
        record = _record(decision, saved, current, old)
        # The places aside are made before the record, and never again by a late process.
        writes = [write_commit_record, make_place_of_success, make_places_aside]
        context.at_once(lambda write: write(context, record), writes)
        notes.append(partial(note, record))
    else:
        success = written[1]
    # The one binding request: it consumes the declared state of this very round (D1).
    recorded, run.plan, *_ = context.do_at_once(
        partial(save_commit_record, context, current, record),
        # By now this run has written files, by which a store shows who its user is.
        partial(with_same_rights, context, run.plan, old.missing),
        *notes,
    )
    # Not before: if another process records the job, its record counts. If more is moved than was to be,
    # it is written again with what that took.
    if context.moves_at_once(record.files - run.plan.files + len(run.plan.moves)):
        run.progress.success = cast("WrittenSuccess | None", success)
    return cast("Seen", recorded), record, replace(decision, loaded=saved)


def _note_missing(run: CommitRun, old: OldFiles) -> list[str]:
    """Note which directories the look has found, and return those that it has found missing."""
    run.there, moves = old.there, run.plan.moves
    run.missing = old.missing.intersection(parent(move.dest) for move in moves)
    return [*run.missing, *old.missing.intersection(move.dest for move in moves)]


def _look_until_free(decision: _Decision, current: Seen) -> tuple[Seen, OldFiles, bool]:
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
    decision: _Decision, current: Seen, below: Sequence[str]
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


def _warn_of_network(context: JobContext, claim: Claim) -> None:
    """Give a notice if a job that excludes other writers is on a network file system."""
    kinds = {root: context.store.network_file_system(root) for root in claim.excludes}
    mounted = [(root, kind) for root, kind in kinds.items() if kind is not None]
    if mounted:
        root, kind = mounted[0]
        context.notice_once(
            f"{mark(root)}: is on a network file system ({kind}), where a machine may see the changes "
            "of others late; let no other job write there until this one has ended, because it replaces "
            f"data or requires that there is none"
        )


def _freeze_and_declare(decision: _Decision, last: Seen) -> Seen:
    context, run, claim = decision.context, decision.run, decision.claim

    def freeze() -> JobContext | None:
        # In this order: a task that ran again can write its last file and save while both are renamed.
        # Then its manifest would count, and its file would be left.
        freeze_manifests(context, decision.loaded)
        # All tasks that count had saved before: none must be looked for in what is frozen (R1).
        is_known = decision.loaded.listing.is_named and context.job.staging == TASKS
        return freeze_tasks(context, last.state) if is_known else None

    prepared, run.prepared = run.prepared, None  # no nonce is used twice
    declare = partial(declare_job, context, last, claim, run.name, decision.run_id, prepared=prepared)
    # The freeze can fail although the declaration stands: withdrawn again, it has decided nothing.
    frozen, declared = context.do_at_once(freeze, declare)
    if frozen is not None:
        run.context, run.held = cast("JobContext", frozen), cast("Seen", declared).state.nonce
    return cast("Seen", declared)


def _hold_tasks(decision: _Decision, current: Seen) -> None:
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


def _save(decision: _Decision, planned: LoadedManifests) -> LoadedManifests:
    """Save the packs under their names, and force them to disk, if the commit must be durable."""
    saved = save_packs(decision.context, decision.loaded, planned)
    sync_packs(decision.context, saved.packs)
    return saved


def _write_known(
    decision: _Decision, record: CommitRecord, planned: LoadedManifests
) -> WrittenSuccess | None:
    """Write a record that is known before the look, and perhaps ``_SUCCESS`` under a temporary name."""
    if not decision.is_known:
        return None
    context = decision.context
    write = partial(write_commit_record, context, record)
    _, success = context.do_at_once(write, partial(write_small_success, context, record, planned.packs))
    return cast("WrittenSuccess | None", success)


def _check(decision: _Decision, current: Seen) -> OldFiles | Exception:
    """The old files where the job writes, or the error to raise if no other job is in the way: what
    looks like an obstacle can be a commit at work."""
    context, loaded = decision.context, decision.loaded
    checks: list[Callable[[], object]] = [
        partial(decision.look_at_data, loaded),
        partial(find_old_success, context, decision.roots.replaced),
        partial(_look_at_sources, decision, current),
    ]
    try:
        # Beside each other, since none changes what another sees. An error of one is kept until it is
        # certain that the manifests are the frozen ones: it may be about a file of an earlier one.
        is_current, *checked = context.do_at_once(
            partial(_is_still_alone, context, loaded), *(partial(_tried, check) for check in checks)
        )
        if not is_current:
            return ManifestsChangedError()
        old, success, look = checked
        if isinstance(look, SourcesLook) and look.errors:
            decision.look_at_data(replace(loaded, source_errors=look.errors))
        if error := next((result for result in checked if isinstance(result, Exception)), None):
            return error
        decision.plan(cast("SourcesLook", look), cast("OldFiles", old))
        return replace(cast("OldFiles", old), success=cast("ReplacedFile | None", success))
    except (OSError, RayCommitterError) as e:
        return e


def _look_at_sources(decision: _Decision, current: Seen) -> SourcesLook:
    _hold_tasks(decision, current)
    context, state = decision.context, current.state
    is_own, look = context.do_at_once(
        partial(has_mark, context, state), partial(look_at_sources, context, decision.loaded)
    )
    if not is_own or (look.errors and not holds_tasks(context, state)):
        raise ManifestsChangedError  # another run has the files
    return cast("SourcesLook", look)


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


def _withdraw_own(context: JobContext, run: str) -> None:
    """Withdraw this run's declaration if it is still there; otherwise the next run counts it as dead."""
    with suppress(OSError, RayCommitterError):
        status = read_other(context.store, context.job, context.now_milliseconds())
        if status is not None and status.phase is Phase.DECLARED and status.declaration.owner.run == run:
            advance_if_unchanged(context.store, context.job, status.known, Phase.OPEN)


def _record(decision: _Decision, loaded: LoadedManifests, last: Seen, old: OldFiles) -> CommitRecord:
    run, context, turn = decision.run, decision.context, decision.turn
    # A late task learns only by the digests whether its manifest counts, where it can replace that.
    digests = (
        [ref.digest for ref in loaded.manifests] if context.places.keeps_manifests(context.job) else []
    )
    return CommitRecord(
        nonce=new_nonce(),
        stamp=last.state.stamp,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        created_milliseconds=context.now_milliseconds(),
        owner=nobody(run.name) if run.record_only else owner_of(run.name),
        claim=decision.claim,
        packs=[pack.ref for pack in loaded.packs],
        tasks=loaded.tasks,
        digests=sorted(digests),
        statistics=loaded.statistics,
        passed_over=loaded.passed_over,
        expected_tasks=context.options.expected_tasks,
        mode=context.options.mode,
        replaced=list(old.replaced),
        overwritten=list(old.overwritten),
        emptied=list(old.emptied),
        success=old.success,
        partition_paths=list(context.options.partition_paths),
        allowed_roots=list(run.allowed_roots),
        mark_success=context.options.mark_success,
        durable=context.options.durable,
        table=turn.claimed,
        run_id=decision.run_id,
        is_undoable=context.old_files.puts_aside and not old.overwritten and not turn.is_in_log,
    )
