"""Decide a job: declare it, look around, list what it replaces, and record it.

Until the record stands nothing of it binds anybody: whatever is found wrong, the declaration is
withdrawn and the job is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from ray_committer.errors import ManifestChangedError, RayCommitterError
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import Claim, CommitRecord, ConflictMode, Owner
from ray_committer.protocol.state import Phase, new_nonce
from ray_committer.stages.check_places import find_other_destinations
from ray_committer.stages.check_sources import check_sources_at_once
from ray_committer.stages.cleanup_job import remove_what_was_late
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import with_coordinator
from ray_committer.stages.declare_job import Patience, declare_job, give_way, look_around, withdraw
from ray_committer.stages.freeze_manifests import copies_are_current, freeze_manifests
from ray_committer.stages.job_state import Seen, StateChangedError
from ray_committer.stages.load_manifests import LoadedManifests, ManifestsChangedError
from ray_committer.stages.other_attempts import abort_older_attempts
from ray_committer.stages.other_jobs import read_other
from ray_committer.stages.owners import nobody, owner_of
from ray_committer.stages.preflight import OldFiles, look_at_data
from ray_committer.stages.remove_replaced_files import make_places_of_blocking
from ray_committer.stages.save_commit_record import save_commit_record, write_commit_record
from ray_committer.stages.sync_to_disk import sync_manifests
from ray_committer.stores.base import network_file_system, real_path

MOST_WRITES = 100
"""So many directories a declaration names; of more it says the destination."""

MANY_MANIFESTS = 10_000
"""A listing of so many takes megabytes, and so does their record."""


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
) -> tuple[Seen, CommitRecord]:
    """Decide an open job: the recorded state, and its record.

    `load` tells a coordinator everything again; this run `goes_on` with the commit, or leaves that to
    others, who then need not wait for it. The `patience` with other jobs is that of the whole run.

    `CommitConflictError` if another job is in the way for too long, or data is; `StateChangedError` if
    somebody else decides it; `ManifestsChangedError` if a task has committed since the manifests were
    loaded, and the job is open again.
    """
    owner = owner_of(run) if goes_on else nobody(run)
    decision = _Decision(context, loaded, run, owner, load, replaced_roots, allowed_roots)
    try:
        return _decide(decision, seen, patience)
    except StateChangedError:
        raise
    except Exception:
        _withdraw_own(context, run)
        raise


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a run has to decide: what the job has, where that may go, and who then goes on with it."""

    context: JobContext
    loaded: LoadedManifests
    run: str
    owner: Owner
    load: Callable[[], object]
    replaced_roots: tuple[str, ...]
    allowed_roots: tuple[str, ...]


def _decide(decision: _Decision, seen: Seen, patience: Patience) -> tuple[Seen, CommitRecord]:
    context, loaded = decision.context, decision.loaded
    claim = with_coordinator(context, lambda: _claim(decision), decision.load)
    _warn_of_network(context, claim)
    record = _record(decision, seen, claim, OldFiles())
    if loaded.sources_are_checked or loaded.wrong_sources:
        _refuse_wrong_sources(decision)
    seen = _freeze_and_declare(decision, seen, claim, record)
    is_written = _is_written_meanwhile(decision, claim)
    below: tuple[str, ...] = ()
    while True:
        if seen.phase is Phase.OPEN:
            seen = declare_job(context, seen, claim, decision.run)
        look = partial(look_around, context, claim, below)
        check = partial(_check, decision, claim)
        if claim.excludes:
            others = look()
            if not others:
                old = _or_raise(check())
        else:  # what is there changes nothing that it records, so both are done at once
            steps: list[Callable[[], Any]] = [look, check]
            others, checked = context.at_once(lambda step: step(), steps)
            if not others:
                old = _or_raise(checked)
        if others:
            seen = give_way(context, seen, claim, others, patience)
            is_written = False  # it says since when its committer is at work
        elif old.destinations == below:
            break
        else:
            below = old.destinations  # jobs were set up there: look at them, then look again
    if not is_written:
        record = _record(decision, seen, claim, old)
        write_commit_record(context, record)
    make_places_of_blocking(context, record)
    try:
        return save_commit_record(context, seen, record), record
    except StateChangedError as e:
        remove_what_was_late(context, e)
        raise


def _warn_of_network(context: JobContext, claim: Claim) -> None:
    """Say of a job that nobody else may write beside that its file system is a network's."""
    kinds = {root: network_file_system(context.store, root) for root in claim.excludes}
    found = [(root, kind) for root, kind in kinds.items() if kind is not None]
    if found:
        root, kind = found[0]
        context.notice_once(
            f"{root}: is on a network file system ({kind}), where a machine may see late what others "
            f"do; let no other job write there until this one, which replaces data or wants none there, "
            f"has ended"
        )


def _claim(decision: _Decision) -> Claim:
    """What the job writes, and what of that nobody else may write meanwhile."""
    context, destination = decision.context, decision.context.job.destination
    excludes = _replaced(decision)
    if context.options.mode is ConflictMode.ERROR:
        excludes = (destination,)
    if context.options.delete_blocking_files:  # perhaps one that another job has just put there
        excludes = (*excludes, destination, *decision.allowed_roots)
    writes = set(excludes)
    if context.executor.directories.plan() > MOST_WRITES:
        writes.update((destination, *decision.allowed_roots))
    else:
        writes.update(context.executor.directories.share(0, 1))
        writes.update((destination,) if decision.loaded.fills_destination else ())
    real = partial(real_path, context.store)  # by which name others reach a directory does not matter
    writes, excludes = set(map(real, writes)), tuple(set(map(real, excludes)))
    outermost = [path for path in writes if not any(is_inside(path, other) for other in writes)]
    return Claim(sorted(outermost), sorted(excludes))


def _replaced(decision: _Decision) -> tuple[str, ...]:
    """The directories whose files the job replaces."""
    if decision.context.options.mode is not ConflictMode.OVERWRITE:
        return ()
    return decision.replaced_roots or (decision.context.job.destination,)


def _freeze_and_declare(decision: _Decision, seen: Seen, claim: Claim, record: CommitRecord) -> Seen:
    """Freeze and declare; perhaps the record, which nobody reads before a state names it, is written
    meanwhile."""
    context, loaded = decision.context, decision.loaded
    steps: list[Callable[[], Any]] = [
        partial(_check_and_freeze, decision),
        partial(declare_job, context, seen, claim, decision.run),
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
    """Whether the record is written while manifests are frozen: if it is known by then, since the job
    replaces nothing, and memory has room for it beside the listing that the freeze makes."""
    return not claim.excludes and len(decision.loaded.manifests) < MANY_MANIFESTS


def _check_and_freeze(decision: _Decision) -> bool:
    """Look at the sources, if the load has not; then freeze. False if what was loaded has changed."""
    try:
        if not decision.loaded.sources_are_checked:
            _refuse_wrong_sources(decision)
    except ManifestsChangedError:
        return False
    return freeze_manifests(decision.context, decision.loaded)


def _refuse_wrong_sources(decision: _Decision) -> None:
    """If sources are missing or changed, raise what says so, and all else that is in the way.

    `ManifestsChangedError` if a task has saved another manifest since, which it may until the freeze.
    """
    context, loaded = decision.context, decision.loaded
    try:
        wrong = loaded.wrong_sources
        if not loaded.sources_are_checked:
            wrong += check_sources_at_once(context, loaded.manifests)
        if wrong:
            known = replace(loaded, wrong_sources=wrong)
            look = partial(look_at_data, context, known, decision.replaced_roots, decision.allowed_roots)
            with_coordinator(context, look, decision.load)
    except ManifestChangedError:
        raise ManifestsChangedError from None


def _check(decision: _Decision, claim: Claim) -> OldFiles | Exception:
    """What is where the job writes; or the error that says what is wrong, to be raised if nobody else is
    in the way."""
    context = decision.context
    steps: list[Callable[[], Any]] = [
        partial(abort_older_attempts, context.store, context.job),
        partial(copies_are_current, context, decision.loaded),
        partial(with_coordinator, context, partial(_look, decision, claim), decision.load),
    ]
    try:
        _, are_current, old = context.at_once(lambda step: step(), steps)
        return cast("OldFiles", old) if are_current else ManifestsChangedError()
    except (OSError, RayCommitterError) as e:
        return e


def _look(decision: _Decision, claim: Claim) -> OldFiles:
    old = look_at_data(
        decision.context, decision.loaded, decision.replaced_roots, decision.allowed_roots
    )
    others = {*old.destinations, *find_other_destinations(decision.context, claim, _replaced(decision))}
    return replace(old, destinations=tuple(sorted(others)))


def _or_raise(checked: OldFiles | Exception) -> OldFiles:
    if isinstance(checked, OldFiles):
        return checked
    raise checked


def _withdraw_own(context: JobContext, run: str) -> None:
    """Withdraw what this run has declared, if it still is; the next run takes it for dead otherwise."""
    with suppress(StateChangedError, OSError, RayCommitterError):
        own = read_other(context.store, context.job, context.now_milliseconds())
        if own is not None and own.phase is Phase.DECLARED and own.declaration.owner.run == run:
            withdraw(context, own.seen)


def _record(decision: _Decision, seen: Seen, claim: Claim, old: OldFiles) -> CommitRecord:
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
        blocking=list(old.blocking),
        partition_paths=list(context.options.partition_paths),
        allowed_roots=list(decision.allowed_roots),
        mark_success=context.options.mark_success,
        durable=context.options.durable,
    )
