"""Plan a commit, or what is left of one: directories, first renames, totals, number of requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from ray_committer.errors import RayCommitterError, RecordGoneError, mark
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, StateChangedError, read_state
from ray_committer.job_files.read_job import read_job_and_manifests
from ray_committer.job_files.success import is_noted
from ray_committer.jobs.estimate import Job
from ray_committer.jobs.job_plan import (
    JobPlan,
    PlannedRename,
    new_plan,
    planned_rename,
    planned_requests,
    shared_sources,
)
from ray_committer.jobs.open_job import OpenJob, StorageOptions, existing_state, open_job
from ray_committer.jobs.survey_jobs import entries_left, pending_marks
from ray_committer.options import CommitOptions
from ray_committer.protocol.claims import Obstacle
from ray_committer.protocol.pack import Pack, PackRange, PackRef
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.state import UNFINISHED, UNSTAMPED, Phase
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import CommittedRun
from ray_committer.protocol.whole import WholePlan
from ray_committer.stages.bind_versions import bind_versions
from ray_committer.stages.checks.attempts import listed_attempts, look_for_tasks, refuse_unsaved
from ray_committer.stages.checks.sources import look_at_sources
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import ends_of, look_around
from ray_committer.stages.freeze_tasks import can_freeze, find_staging, why_not_whole
from ray_committer.stages.load_manifests import (
    LOADS,
    LoadedManifests,
    ManifestsChangedError,
    changed_too_often,
    load_manifests,
    load_unchanged,
)
from ray_committer.stages.load_packs import load_packs
from ray_committer.stages.old_data.mode_roots import ModeRoots, claim_of, roots_of_mode
from ray_committer.stages.other_jobs.end_others import plan_text
from ray_committer.stages.plan_moves import plan_moves, with_same_rights
from ray_committer.stages.preflight import OldFiles, look_at_data, preflight
from ray_committer.stages.run.coordinator_loss import load_with_coordinator
from ray_committer.stages.save_commit_record import refuse_aborted, refuse_foreign_paths
from ray_committer.stages.turns.claim_table import begin_turn
from ray_committer.stages.turns.find_table import require_table
from ray_committer.stages.turns.run_once import run_id_of
from ray_committer.stages.turns.turn import Turn
from ray_committer.stores.registry import shown_url
from ray_committer.tables.claim import at_work
from ray_committer.tables.jobs_in_log import read_jobs_in_log
from ray_committer.work.batches import ranges
from ray_committer.work.worker import Worker

FIRST = 10


def plan_job(
    dest: str,
    job_id: str | None = None,
    *,
    first: int = FIRST,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> JobPlan:
    """Load and check a job as its commit would, without changing anything.

    `first` is the number of directories and renames to list. A job that Hadoop's S3A committer left is
    refused with `SettingsError`. If another process changes the job meanwhile, the job is read again.

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
        is_dry_run=True,
    ) as job:
        as_found = job
        for _ in range(LOADS):
            with suppress(ManifestsChangedError, StateChangedError):
                return _plan_as_found(as_found, first)
            as_found = replace(job, state=read_job_and_manifests(job.context.store, job.context.job))
        raise changed_too_often(job.context)


def _plan_as_found(job: OpenJob, first: int) -> JobPlan:
    """Plan a job as found; `StateChangedError` if it looks wrong since another process continued it."""
    context = job.context
    if job.state.is_remnant and is_noted(context.store, context.job):
        return new_plan(context, "cleaned up", 0, [], requests=0)
    current = existing_state(job).seen
    try:
        if current is not None and current.phase is Phase.COMMITTED:
            return _plan_cleanup(context, current)
        if current is not None and current.state.record:
            record = load_commit_record(context.store, context.job, current.state)
            return _plan_rest(job, current, record, first)
        return _plan_renames(job, current, first)
    except (RayCommitterError, OSError):
        latest = read_state(context.store, context.job)
        if latest == current:
            raise
        raise StateChangedError(latest, current) from None


def _plan_cleanup(context: JobContext, current: Seen) -> JobPlan:
    tasks, packs = 0, list[PackRef]()
    with suppress(RecordGoneError):  # an earlier clean-up has deleted it
        record = load_commit_record(context.store, context.job, current.state)
        tasks, packs = record.tasks, record.packs
    plan = new_plan(context, "committed", tasks, packs, requests=planned_requests(context, Job(0, 0, 0)))
    return replace(plan, moved=plan.files, moved_bytes=plan.bytes)


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is left to be moved of some files of a pack, and the `first` of these renames."""

    place: tuple[int, int]
    files: int
    bytes: int
    directories: frozenset[str]
    first: tuple[PlannedRename, ...]


def _plan_rest(job: OpenJob, current: Seen, record: CommitRecord, first: int) -> JobPlan:
    context = job.context
    refuse_aborted(context, current.phase)
    refuse_foreign_paths(context, record, (*job.replaced_roots, *job.allowed_roots))
    if (place := find_staging(context.store, context.job, current.state)) is not None:
        context = replace(context, job=place)
    roots = (context.job.destination, *record.allowed_roots)
    loaded = load_with_coordinator(context, partial(load_packs, context, record, roots))
    pending = pending_marks(context.store, roots)
    work = partial(_rest_of, pending=pending, limit=first, tasks=context.job.tasks)
    parts = ranges(context.executor, loaded.packs)
    rests = sorted(context.executor.run(work, parts), key=attrgetter("place"))
    leaves = sorted({path for rest in rests for path in rest.directories})
    left, left_bytes = sum(rest.files for rest in rests), sum(rest.bytes for rest in rests)
    removed = len(record.replaced)
    in_log = read_jobs_in_log(context.store, context.job.destination)
    logged = in_log.of(context.job, current.state.stamp)
    # No manifest is read, and no file of a task is looked at again.
    rest = Job(left, record.tasks, len(leaves), sources=0, has_results=True)
    requests = planned_requests(context, rest, removed)
    return replace(
        new_plan(context, current.phase.value, record.tasks, record.packs, requests=requests),
        directories=len(leaves),
        replaced=removed,
        first_directories=tuple(shown_url(context.store.spec, path) for path in leaves[:first]),
        first_renames=tuple(rename for rest in rests for rename in rest.first)[:first],
        claims=logged.partitions if logged else (),
        claim=logged.claim if logged else None,
        moved=record.files - left,
        moved_bytes=record.bytes - left_bytes,
    )


def _rest_of(
    worker: Worker, part: PackRange, *, pending: frozenset[bytes], limit: int, tasks: str
) -> _Rest:
    """Work: what a commit that has begun has not moved yet of some files of a pack."""
    recorded = list(worker.packs.entries(part.pack, part.low, part.high, tasks=tasks))
    left = list(entries_left(worker.store, recorded, pending))
    return _Rest(
        (part.index, part.low),
        files=len(left),
        bytes=sum(entry.expected.size for entry in left),
        directories=frozenset(parent(entry.dest) for entry in left),
        first=tuple(planned_rename(worker.store.spec, entry) for entry in left[:limit]),
    )


def _plan_renames(job: OpenJob, current: Seen | None, first: int) -> JobPlan:
    context = job.context
    if current is not None:
        refuse_aborted(context, current.phase)
    stamp, where = (
        current.state.stamp if current else UNSTAMPED,
        (context.job.destination, *job.allowed_roots),
    )
    load = partial(load_manifests, context, where, stamp=stamp, changes_nothing=True)
    with listed_attempts(context, job.state.task_attempts) as attempts:
        loaded = load_unchanged(context, partial(load_with_coordinator, context, load))
        if current is not None and loaded.listing.is_frozen:
            context, attempts = look_for_tasks(context, current.state, attempts)
        loaded = bind_versions(context, loaded, saves=False)
    preflight(context, loaded)
    refuse_unsaved(context, loaded, *attempts)
    turn = _turn(job, current, loaded)
    outcome = turn.look()
    old, unfinished, whole = OldFiles(), tuple(_waits(context, outcome)), WholePlan()
    if not isinstance(outcome, CommittedRun):
        roots = roots_of_mode(context, loaded, job.replaced_roots)
        look = look_at_sources(context, loaded)
        loaded = replace(loaded, source_errors=(*loaded.source_errors, *look.errors))
        old = look_at_data(context, loaded, roots, allowed_roots=job.allowed_roots)
        unfinished = (*_unfinished(job, loaded, roots, old.destinations, turn.run_id), *unfinished)
        can_move = current is not None and can_freeze(context.store, current.state)
        moves_here = can_move and why_not_whole(context.store, context.job) is None
        whole = plan_moves(context, look, old.there, moves_here=moves_here)
        whole = with_same_rights(context, whole, old.missing, is_dry_run=True)
    logged = read_jobs_in_log(context.store, context.job.destination).of(context.job, stamp)
    removed = len(old.replaced)
    directories = context.executor.directories.plan()
    first_directories = context.executor.directories.claim(first)
    job_size = Job(
        loaded.files,
        loaded.tasks,
        directories,
        shared_sources(context, loaded.packs),
        existing=len(old.there),
        whole=len(whole.moves),
        whole_files=whole.files,
    )
    requests = planned_requests(context, job_size, removed)
    return replace(
        new_plan(
            context, "running", loaded.tasks, [pack.ref for pack in loaded.packs], requests=requests
        ),
        directories=directories,
        whole=len(whole.moves),
        whole_files=whole.files,
        by_file={why.value: number for why, number in sorted(whole.by_file.items())},
        replaced=removed,
        first_directories=tuple(shown_url(context.store.spec, path) for path in first_directories),
        first_renames=_first_renames(context, loaded, first),
        unfinished=unfinished,
        claims=tuple(turn.partitions or (logged.partitions if logged else ())),
        claim=logged.claim if logged else None,
    )


def _turn(job: OpenJob, current: Seen | None, loaded: LoadedManifests) -> Turn:
    """The turn that the commit would take, if the job belongs to a table with a log."""
    if job.context.options.keep_replaced and current is not None:
        require_table(job.context.job, current)
    if current is None or current.state.table is None:
        return Turn(job.context)
    roots = roots_of_mode(job.context, loaded, job.replaced_roots)
    run_id = run_id_of(job.context, current)
    return begin_turn(job.context, current.state, loaded, roots, "a dry run", run_id)


def _waits(context: JobContext, outcome: CommittedRun | Obstacle | None) -> Iterator[str]:
    """The job whose claim the commit would wait for, or which has done its work."""
    table = TablePlaces(context.job.destination)
    if isinstance(outcome, Obstacle):
        yield context.located(f"{at_work(table, outcome)}; the commit would wait for it")
    elif outcome is not None:
        yield context.located(
            f"{mark(table.destination)}: run id {outcome.run_id} is committed already as version "
            f"{outcome.version}; the commit would remove the files of this job"
        )


def _unfinished(
    job: OpenJob, loaded: LoadedManifests, roots: ModeRoots, below: Sequence[str], run_id: str | None
) -> tuple[str, ...]:
    """What the commit would do about jobs in its way that have stopped, also `below` its destination."""
    context = job.context
    claim = claim_of(context, loaded, roots, job.allowed_roots)
    rivals = look_around(context, claim, below)
    stopped = [rival for rival in rivals if rival.phase in UNFINISHED and not rival.is_alive]
    replaced = [context.store.real_path(root) for root in roots.replaced]
    choices = ends_of(context, stopped, replaced, run_id)
    return tuple(context.located(plan_text(context.store, rival, how)) for rival, how in choices)


def _first_renames(
    context: JobContext, loaded: LoadedManifests, first: int
) -> tuple[PlannedRename, ...]:
    planned: list[PlannedRename] = []
    for pack in loaded.packs:
        work = partial(_renames_of, limit=first - len(planned), tasks=context.job.tasks)
        for renames in context.executor.run(work, [pack]):
            planned += renames
        if len(planned) >= first:
            break
    return tuple(planned)


def _renames_of(worker: Worker, pack: Pack, *, limit: int, tasks: str) -> list[PlannedRename]:
    entries = worker.packs.entries(pack, 0, limit, tasks=tasks)
    return [planned_rename(worker.store.spec, entry) for entry in entries]
