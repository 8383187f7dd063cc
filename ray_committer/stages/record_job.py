"""Decide a job: declare it, look for other jobs, list the files that it replaces, and record it.

Nothing is binding before the job is recorded: after any error the declaration is withdrawn, and the job
is open as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from ray_committer.errors import ManifestChangedError, RayCommitterError
from ray_committer.job_files.job_state import Seen, StateChangedError
from ray_committer.job_files.job_tree import list_tree
from ray_committer.job_files.others import look_for_all
from ray_committer.job_files.owners import nobody, owner_of
from ray_committer.job_files.read_job import read_other
from ray_committer.places.aside import sets_aside
from ray_committer.protocol.paths import ancestors, is_within, parent
from ray_committer.protocol.record import Claim, ClaimedTable, CommitRecord, Owner, ReplacedFile
from ray_committer.protocol.state import Phase, TableBase, new_nonce
from ray_committer.stages.checks.places import find_other_destinations
from ray_committer.stages.checks.sources import check_sources_at_once
from ray_committer.stages.claim_table import Turn, begin_turn, wait_for_turn
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import with_coordinator
from ray_committer.stages.declare_job import Patience, declare_job, give_way, look_around, withdraw
from ray_committer.stages.freeze_manifests import are_as_loaded, copies_are_current, freeze_manifests
from ray_committer.stages.load_manifests import (
    MANY_MANIFESTS,
    LoadedManifests,
    ManifestsChangedError,
)
from ray_committer.stages.mode_roots import ModeRoots, roots_of_mode
from ray_committer.stages.old_files_aside import make_places_aside
from ray_committer.stages.old_success import find_old_success, make_place_of_success
from ray_committer.stages.other_attempts import abort_older_attempts
from ray_committer.stages.preflight import OldFiles, look_at_data
from ray_committer.stages.save_commit_record import save_commit_record, write_commit_record
from ray_committer.stages.sync_to_disk import sync_manifests
from ray_committer.tables.other_tables import refuse_partitions_of_tables
from ray_committer.tables.release import release_own

MOST_WRITES = 100
"""The most directories that a declaration names; if there are more, it names the destination."""


def record_job(
    context: JobContext,
    seen: Seen,
    loaded: LoadedManifests,
    run: str,
    *,
    load: Callable[[], object],
    replaced_roots: tuple[str, ...],
    allowed_roots: tuple[str, ...],
    patience: Patience,
    goes_on: bool = True,
    run_id: str | None = None,
) -> tuple[Seen, CommitRecord]:
    """Decide an open job; return the recorded state and the record.

    `load` loads everything into a new coordinator. This run `goes_on` with the commit, or leaves it to
    other processes, which then need not wait for this run. `patience` limits the wait for other jobs
    over the whole run. `run_id` is what the job does once.

    `RunCommittedError` if another job has done that.
    `CommitConflictError` if another job is in the way for too long, or if data is in the way.
    `StateChangedError` if another process decides the job. `ManifestsChangedError` if a task has
    committed since the manifests were loaded; the job is then open again.
    """
    owner, work = owner_of(run) if goes_on else nobody(run), context.options.table_work
    run_id = work.run_id if work is not None else run_id
    refuse_partitions_of_tables(context.store, (context.job.destination, *allowed_roots))
    roots = roots_of_mode(context, loaded, replaced_roots)
    table = seen.state.table
    decision = _Decision(context, loaded, run, owner, load, roots, allowed_roots, table, run_id)
    try:
        return _decide(decision, seen, patience)
    except StateChangedError as e:
        context.journal.claimed = None
        if e.now is not None and e.now.phase is Phase.ABORTED:  # perhaps before this run's claim
            release_own(context.store, context.job, e.now.state, context.now_milliseconds())
        raise
    except Exception:
        _withdraw_own(context, run)
        raise


@dataclass(frozen=True, slots=True)
class _Decision:
    """The input of a decision: the job's manifests, its allowed places, the later owner, and the table
    that it belongs to."""

    context: JobContext
    loaded: LoadedManifests
    run: str
    owner: Owner
    load: Callable[[], object]
    roots: ModeRoots
    allowed_roots: tuple[str, ...]
    table: TableBase | None
    run_id: str | None


def _decide(decision: _Decision, seen: Seen, patience: Patience) -> tuple[Seen, CommitRecord]:
    context, loaded = decision.context, decision.loaded
    claims = partial(claim_of, context, loaded, decision.roots, decision.allowed_roots)
    claim = with_coordinator(context, claims, decision.load)
    _warn_of_network(context, claim)
    roots = [context.store.real_path(root) for root in decision.roots.replaced]
    record = _record(decision, seen, claim, OldFiles())
    if loaded.sources_are_checked or loaded.wrong_sources:
        _refuse_wrong_sources(decision)
    begin = partial(
        begin_turn,
        context,
        seen.state,
        decision.table,
        loaded,
        decision.roots,
        decision.run,
        decision.run_id,
    )
    turn = with_coordinator(context, begin, decision.load)
    seen = _freeze_and_declare(decision, seen, claim, record)
    is_written = _is_written_meanwhile(decision, claim)
    below: tuple[str, ...] = ()
    choose = turn.must_look_for if turn is not None else look_for_all
    while True:
        if seen.phase is Phase.OPEN:
            seen = declare_job(context, seen, claim, decision.run, decision.run_id)
        look = partial(look_around, context, claim, below, choose)
        check = partial(_check, decision, claim, turn)
        if claim.excludes or turn is not None:
            others = look()
            if not others and turn is not None and (obstacle := turn.take()) is not None:
                seen = wait_for_turn(context, seen, turn, obstacle, patience)
                continue
            if not others:
                old = _or_raise(check())
        else:  # data at the destination does not change the record, so do both in parallel
            steps: list[Callable[[], Any]] = [look, check]
            others, checked = context.at_once(lambda step: step(), steps)
            if not others:
                old = _or_raise(checked)
        if others:
            seen = give_way(context, seen, claim, others, patience, roots=roots, run_id=decision.run_id)
            is_written = False  # a new record must be written, with the new start time
        elif old.destinations == below:
            break
        else:
            below = old.destinations  # other jobs were set up there: check them too, then look again
    if turn is not None:
        turn.refuse_what_cannot_be_kept(old)
    if not is_written or old.success is not None:
        record = _record(decision, seen, claim, old, turn.claimed if turn else None)
        writes = [write_commit_record, make_place_of_success, make_places_aside]
        context.at_once(lambda write: write(context, record), writes)
    return save_commit_record(context, seen, record), record


def _warn_of_network(context: JobContext, claim: Claim) -> None:
    """Give a notice if a job that excludes other writers is on a network file system."""
    kinds = {root: context.store.network_file_system(root) for root in claim.excludes}
    found = [(root, kind) for root, kind in kinds.items() if kind is not None]
    if found:
        root, kind = found[0]
        context.notice_once(
            f"{root}: is on a network file system ({kind}), where a machine may see the changes of "
            f"others late; let no other job write there until this one has ended, because it replaces "
            f"data or requires that there is none"
        )


def claim_of(
    context: JobContext, loaded: LoadedManifests, roots: ModeRoots, allowed_roots: Sequence[str]
) -> Claim:
    """The directories that a job writes, and those of them that exclude other writers: the `roots`."""
    destination = context.job.destination
    excludes = (*roots.replaced, *roots.empty)
    writes = set(excludes)
    directories = context.executor.directories
    if context.options.mode.is_of_partitions:  # the other directories are empty, or above a partition
        above = {path for root in excludes for path in ancestors(root, destination)}
        writes.update(set(directories.share(0, 1)) - above)
    elif directories.plan() > MOST_WRITES:
        writes.update((destination, *allowed_roots))
    else:
        writes.update(directories.share(0, 1))
        writes.update((destination,) if loaded.fills_destination else ())
    real = context.store.real_path  # other jobs can reach a directory by another name
    writes, excludes = set(map(real, writes)), tuple(set(map(real, excludes)))
    outermost = [path for path in writes if path == "/" or not is_within(parent(path), writes)]
    return Claim(sorted(outermost), sorted(excludes))


def _freeze_and_declare(decision: _Decision, seen: Seen, claim: Claim, record: CommitRecord) -> Seen:
    """Freeze the manifests and declare the job; also write the record in parallel if it is known.

    No process reads a record before a state names it.
    """
    context, loaded = decision.context, decision.loaded
    steps: list[Callable[[], Any]] = [
        partial(_check_and_freeze, decision),
        partial(declare_job, context, seen, claim, decision.run, decision.run_id),
    ]
    if _is_written_meanwhile(decision, claim):
        steps.append(partial(write_commit_record, context, record))
    is_same, declared, *_ = context.at_once(lambda step: step(), steps)
    if not is_same:
        withdraw(context, declared)
        raise ManifestsChangedError
    sync_manifests(context, loaded.manifests)
    return cast("Seen", declared)


def _is_written_meanwhile(decision: _Decision, claim: Claim) -> bool:
    """Whether the record is written while the manifests are frozen.

    That is possible if the job replaces nothing and has no claim in the log of a table, so that the
    record is known, and if memory has room for the record and the listing of the freeze.
    """
    is_known = not claim.excludes and decision.table is None
    return is_known and len(decision.loaded.manifests) < MANY_MANIFESTS


def _check_and_freeze(decision: _Decision) -> bool:
    """Check the sources, unless the load did; then freeze. False if the loaded manifests changed."""
    try:
        if not decision.loaded.sources_are_checked:
            _refuse_wrong_sources(decision)
    except ManifestsChangedError:
        return False
    return freeze_manifests(decision.context, decision.loaded)


def _refuse_wrong_sources(decision: _Decision) -> None:
    """If sources are missing or changed, raise an error that names them and all other obstacles.

    `ManifestsChangedError` if a task has saved another manifest since the load, which is possible until
    the freeze.
    """
    context, loaded = decision.context, decision.loaded
    try:
        wrong = loaded.wrong_sources
        if not loaded.sources_are_checked:
            wrong += check_sources_at_once(context, loaded)
        if wrong:
            if not are_as_loaded(context, loaded):  # the sources are those of an earlier manifest
                raise ManifestsChangedError
            known = replace(loaded, wrong_sources=wrong)
            roots = decision.allowed_roots
            look = partial(look_at_data, context, known, decision.roots, allowed_roots=roots)
            with_coordinator(context, look, decision.load)
    except ManifestChangedError:
        raise ManifestsChangedError from None


def _check(decision: _Decision, claim: Claim, turn: Turn | None) -> OldFiles | Exception:
    """The old files where the job writes, or the error to raise if no other job is in the way."""
    context = decision.context
    steps: list[Callable[[], Any]] = [
        partial(_is_still_alone, context, decision.loaded),
        partial(with_coordinator, context, partial(_look, decision, claim, turn), decision.load),
        partial(find_old_success, context, decision.roots.replaced),
    ]
    try:
        are_current, old, success = context.at_once(lambda step: step(), steps)
        if not are_current:
            return ManifestsChangedError()
        return replace(cast("OldFiles", old), success=cast("ReplacedFile | None", success))
    except (OSError, RayCommitterError) as e:
        return e


def _is_still_alone(context: JobContext, loaded: LoadedManifests) -> bool:
    """Abort the older attempts of the job; whether no task has saved a manifest since the load."""
    tree = list_tree(context.store, context.job.job_directory)
    steps: list[Callable[[], Any]] = [
        partial(abort_older_attempts, context.store, context.job, tree),
        partial(copies_are_current, context, loaded, tree),
    ]
    _, are_current = context.at_once(lambda step: step(), steps)
    return bool(are_current)


def _look(decision: _Decision, claim: Claim, turn: Turn | None) -> OldFiles:
    context, roots = decision.context, decision.roots
    before = turn.before() if turn is not None else ()
    allowed = decision.allowed_roots
    old = look_at_data(context, decision.loaded, roots, before, allowed_roots=allowed)
    others = {*old.destinations, *find_other_destinations(context, claim, roots.replaced)}
    return replace(old, destinations=tuple(sorted(others)))


def _or_raise(checked: OldFiles | Exception) -> OldFiles:
    if isinstance(checked, OldFiles):
        return checked
    raise checked


def _withdraw_own(context: JobContext, run: str) -> None:
    """Withdraw this run's declaration if it is still there; otherwise the next run counts it as dead."""
    with suppress(StateChangedError, OSError, RayCommitterError):
        own = read_other(context.store, context.job, context.now_milliseconds())
        if own is not None and own.phase is Phase.DECLARED and own.declaration.owner.run == run:
            withdraw(context, own.known)


def _record(
    decision: _Decision,
    seen: Seen,
    claim: Claim,
    old: OldFiles,
    table: ClaimedTable | None = None,
) -> CommitRecord:
    context = decision.context
    return CommitRecord(
        nonce=new_nonce(),
        stamp=seen.state.stamp,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        created_milliseconds=context.now_milliseconds(),
        owner=decision.owner,
        claim=claim,
        manifests=list(decision.loaded.manifests),
        expected_tasks=context.options.expected_tasks,
        mode=context.options.mode,
        replaced=list(old.replaced),
        overwritten=list(old.overwritten),
        emptied=list(old.emptied),
        success=old.success,
        partition_paths=list(context.options.partition_paths),
        allowed_roots=list(decision.allowed_roots),
        mark_success=context.options.mark_success,
        durable=context.options.durable,
        table=table,
        run_id=decision.run_id,
        is_undoable=sets_aside(context.store) and not old.overwritten and table is None,
    )
