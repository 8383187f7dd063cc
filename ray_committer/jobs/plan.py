"""Plan a commit: its directories, first renames, totals, and the number of requests it would make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import RayCommitterError, RecordGoneError
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.find_job import read_state_and_manifests
from ray_committer.job_files.job_state import Seen, StateChangedError, read_state
from ray_committer.job_files.unfinished_jobs import plan_text
from ray_committer.jobs.open_job import OpenJob, StorageOptions, existing_state, open_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import CommitRecord, ManifestRef
from ray_committer.protocol.state import UNFINISHED, UNSTAMPED, Phase
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.claim_table import Turn, begin_turn
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import load_with_coordinator
from ray_committer.stages.declare_job import ends_of, look_around
from ray_committer.stages.find_table import require_table
from ray_committer.stages.load_manifests import (
    LOADS,
    LoadedManifests,
    ManifestsChangedError,
    changed_too_often,
    load_manifests,
    load_unchanged,
)
from ray_committer.stages.mode_roots import ModeRoots, roots_of_mode
from ray_committer.stages.preflight import OldFiles, look_at_data, preflight
from ray_committer.stages.record_job import claim_of
from ray_committer.stages.save_commit_record import refuse_aborted
from ray_committer.stores.base import real_path
from ray_committer.stores.registry import shown_url
from ray_committer.tables.claim import at_work
from ray_committer.tables.jobs_in_log import read_jobs_in_log
from ray_committer.work.entries import entries
from ray_committer.work.sidecars import freezes_copies
from ray_committer.work.worker import Worker

FIRST = 10
_FIXED_REQUESTS = 21
"""Requests to find this job and others, for the state and its files, ``_SUCCESS``, and the clean-up."""
_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class PlannedRename:
    """One file of the job: URLs or local paths, and bytes."""

    source: str
    destination: str
    size: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of a commit: counts, bytes, and whether an earlier run has begun it.

    destination: a URL, or a local path, as all paths here.
    state: "running" if no commit has begun; "recorded" or "sealed" if an earlier run has begun it, so
        that a part is done already; "committed" if only clean-up is left.
    directories: leaf directories of the output; `first_directories` are the first by name.
    replaced: old files that are removed.
    first_renames: the first in the order of the manifests.
    unfinished: a sentence for each job in the way that has stopped: how it would be ended first, or why
        the commit would be refused.
    claims: the partitions of a table with a log that the commit would claim, or has claimed, relative to
        the destination; an empty path is the whole table. `claim` is the version of its claim there.
    requests: the approximate number of requests to the store, without work that is known to be done.
    """

    destination: str
    job_id: str
    job_attempt: int
    state: str
    manifests: int
    files: int
    bytes: int
    directories: int
    replaced: int
    first_directories: tuple[str, ...] = ()
    first_renames: tuple[PlannedRename, ...] = ()
    unfinished: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    claim: int | None = None
    requests: int = 0

    def seconds_at(self, requests_per_second: float) -> float:
        """How long the requests take at that rate, if the store keeps up with it."""
        return self.requests / requests_per_second


def plan_job(
    dest: str,
    job_id: str | None = None,
    *,
    first: int = FIRST,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> JobPlan:
    """Load and check a job as its commit would, without changing anything.

    `first` is the number of directories and renames to list. If another process changes the job at the
    same time, perhaps a commit at work on it, the job is read again.

    >>> plan = plan_job(dest, "job_1")
    >>> plan.files, plan.directories, plan.first_renames[0].size
    (2, 2, 4)
    """
    with open_job(
        dest,
        job_id,
        executor="threads",
        options=options,
        storage_options=storage_options,
        to_commit=True,
        changes_nothing=True,
    ) as job:
        now = job
        for _ in range(LOADS):
            with suppress(ManifestsChangedError, StateChangedError):
                return _plan_as_found(now, first)
            now = replace(job, state=read_state_and_manifests(job.context.store, job.context.job))
        raise changed_too_often(job.context)


def _plan_as_found(job: OpenJob, first: int) -> JobPlan:
    """Plan a job in the state in which it was found.

    `StateChangedError` if something only looks wrong because another process has continued the job.
    """
    state = existing_state(job)
    seen = state.seen
    try:
        if seen is not None and state.phase is Phase.COMMITTED:
            return _plan_cleanup(job.context, seen)
        record = (
            load_commit_record(job.context.store, job.context.job, seen.state)
            if seen and seen.state.record
            else None
        )
        return _plan_renames(job, seen, record, first)
    except (RayCommitterError, OSError):
        now = read_state(job.context.store, job.context.job)
        if now == seen:
            raise
        raise StateChangedError(now, seen) from None


def _plan_cleanup(context: JobContext, seen: Seen) -> JobPlan:
    manifests: list[ManifestRef] = []
    with suppress(RecordGoneError):  # an earlier clean-up has deleted it
        manifests = load_commit_record(context.store, context.job, seen.state).manifests
    return _plan(context, "committed", manifests, requests=_FIXED_REQUESTS)


def _plan_renames(job: OpenJob, seen: Seen | None, record: CommitRecord | None, first: int) -> JobPlan:
    context = job.context
    if seen is not None:
        refuse_aborted(context, seen.phase)
    allowed = tuple(record.allowed_roots) if record else job.allowed_roots
    roots = (context.job.destination, *allowed)
    stamp = seen.state.stamp if seen else UNSTAMPED
    look = partial(load_manifests, context, record, roots, stamp=stamp, changes_nothing=True)
    load = partial(load_with_coordinator, context, look)
    loaded = load() if record else load_unchanged(context, load)
    if record is None:
        preflight(context, loaded)
    turn = None if record else _turn(job, seen, loaded)
    old, unfinished = (record, ()) if record else _look(job, loaded)
    logged = read_jobs_in_log(context.store, context.job.destination).of(context.job, stamp)
    removed = len(old.replaced) + len(old.blocking)
    directories = context.executor.directories.plan()
    return _plan(
        context,
        seen.phase.value if seen and record else "running",
        list(loaded.manifests),
        directories=directories,
        replaced=removed,
        first_directories=tuple(
            shown_url(context.store.spec, path) for path in context.executor.directories.claim(first)
        ),
        first_renames=_first_renames(context, loaded, first),
        unfinished=(*unfinished, *(_waits(context, turn) if turn else ())),
        claims=tuple(turn.claimant.claim.partitions) if turn else logged.partitions if logged else (),
        claim=logged.claim if logged else None,
        requests=_requests(context, loaded, directories, removed),
    )


def _look(job: OpenJob, loaded: LoadedManifests) -> tuple[OldFiles, tuple[str, ...]]:
    """The old files where the job writes, and a text for each job in its way that has stopped."""
    roots = roots_of_mode(job.context, loaded, job.replaced_roots)
    old = look_at_data(job.context, loaded, roots, job.allowed_roots)
    return old, _unfinished(job, loaded, roots)


def _turn(job: OpenJob, seen: Seen | None, loaded: LoadedManifests) -> Turn | None:
    """The claim that the commit would put into the log of the job's table, if it belongs to one."""
    if job.context.options.keep_replaced and seen is not None:
        require_table(job.context.job, seen)
    if seen is None or seen.state.table is None:
        return None
    roots = roots_of_mode(job.context, loaded, job.replaced_roots)
    return begin_turn(job.context, seen.state, seen.state.table, loaded, roots, "a dry run")


def _waits(context: JobContext, turn: Turn) -> Iterator[str]:
    """The job whose claim the commit would wait for."""
    obstacle = turn.claimant.look()
    if obstacle is not None:
        table = TablePlaces(context.job.destination)
        yield context.located(f"{at_work(table, obstacle)}; the commit would wait for it")


def _unfinished(job: OpenJob, loaded: LoadedManifests, roots: ModeRoots) -> tuple[str, ...]:
    """What the commit would do about jobs in its way that have stopped; it looks below as well."""
    context = job.context
    claim = claim_of(context, loaded, roots, job.allowed_roots)
    others = look_around(context, claim)
    stopped = [one for one in others if one.phase in UNFINISHED and not one.is_alive]
    choices = ends_of(context, stopped, [real_path(context.store, root) for root in roots.replaced])
    return tuple(context.located(plan_text(context.store, other, how)) for other, how in choices)


def _requests(context: JobContext, loaded: LoadedManifests, directories: int, replaced: int) -> int:
    """Count renames, reads and listings per task and directory, and requests made once per commit."""
    store = context.store.capabilities
    validates = context.options.validate
    if validates is None:
        validates = store.listing_is_cheap
    copies = freezes_copies(context.store, context.job.manifests)
    a_task = 1 if store.completes_uploads else 2 + copies  # its manifest, its files, and a copy
    a_directory = store.has_directories + 1 + validates  # created, checked, and listed once more
    above = context.job.destination.count("/")
    moved = loaded.files + replaced
    return moved + a_task * len(loaded.manifests) + a_directory * directories + above + _FIXED_REQUESTS


def _first_renames(
    context: JobContext, loaded: LoadedManifests, first: int
) -> tuple[PlannedRename, ...]:
    found: list[PlannedRename] = []
    for ref in loaded.manifests:
        if len(found) >= first:
            break
        work = partial(_renames_of, limit=first - len(found))
        for renames in context.executor.run(work, [ref]):
            found += renames
    return tuple(found)


def _renames_of(worker: Worker, ref: ManifestRef, *, limit: int) -> list[PlannedRename]:
    """Work: the first renames of one manifest."""
    manifest = worker.recorded(ref).manifest
    spec = worker.store.spec
    return [
        PlannedRename(shown_url(spec, one.source), shown_url(spec, one.dest), one.expected.size)
        for one in entries(manifest, spec, 0, limit)
    ]


def _plan(
    context: JobContext,
    state: str,
    manifests: list[ManifestRef],
    *,
    directories: int = 0,
    replaced: int = 0,
    first_directories: tuple[str, ...] = (),
    first_renames: tuple[PlannedRename, ...] = (),
    unfinished: tuple[str, ...] = (),
    claims: tuple[str, ...] = (),
    claim: int | None = None,
    requests: int,
) -> JobPlan:
    return JobPlan(
        destination=context.url,
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        state=state,
        manifests=len(manifests),
        files=sum(ref.files for ref in manifests),
        bytes=sum(ref.bytes for ref in manifests),
        directories=directories,
        replaced=replaced,
        first_directories=first_directories,
        first_renames=first_renames,
        unfinished=unfinished,
        claims=claims,
        claim=claim,
        requests=requests,
    )
