"""One run of a commit: what it was given, what it has loaded, and how it takes over a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from ray_committer.events import JobLoaded
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.job_status import JobStatus
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.record import CommitRecord, Declaration
from ray_committer.protocol.state import UNDECIDED, JobState, Phase, new_nonce
from ray_committer.protocol.whole import NO_MOVES, WholePlan
from ray_committer.stages.bind_versions import bind_versions
from ray_committer.stages.checks.attempts import listed_attempts, look_for_tasks, refuse_unsaved
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import Patience, wait_for_committer
from ray_committer.stages.freeze_tasks import take_over
from ray_committer.stages.load_again import load_again, load_ahead
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests, load_unchanged
from ray_committer.stages.load_packs import collect_packs, load_packs
from ray_committer.stages.plan_moves import plan_again
from ray_committer.stages.preflight import preflight
from ray_committer.stages.run.commit_progress import CommitProgress
from ray_committer.stages.run.coordinator_loss import load_with_coordinator, with_coordinator
from ray_committer.stages.run.heartbeat import heartbeat
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stages.save_commit_record import refuse_foreign_paths
from ray_committer.stages.turns.commit_in_table import turn_of
from ray_committer.stages.turns.list_new_files import list_new_files
from ray_committer.stages.turns.turn import Turn
from ray_committer.stores.base import FileStatus
from ray_committer.work.load_ahead import LoadAhead


@dataclass(slots=True)
class CommitRun:
    """One run of a commit: its arguments, its progress, and the data that it has loaded."""

    context: JobContext
    found: JobStatus
    """The job as it was found."""
    replaced_roots: tuple[str, ...] = ()
    allowed_roots: tuple[str, ...] = ()
    record_only: bool = False
    ahead: LoadAhead | None = None
    """What was loaded of the job's tasks, if the driver has their results."""
    listed: tuple[FileStatus, ...] | None = field(init=False)
    """The manifests as they were listed with the first state, until they are loaded."""
    prepared: Declaration | None = field(init=False)
    """What this run can declare once, which was written before."""
    name: str = field(default_factory=new_nonce)
    run_id: str | None = None
    """What the job does once, as far as it is known."""
    progress: CommitProgress = field(default_factory=CommitProgress)
    patience: Patience = field(init=False)
    """The limit of the wait for other jobs, over the whole run."""
    turn: Turn = field(init=False)
    before: dict[str, LoadedManifests] = field(default_factory=dict)
    """What this run has loaded of the manifests, which can have changed since; by the job's stamp."""
    loads: int = 0
    """How often the manifests have changed while this run loaded them."""
    held: str | None = None
    """The nonce of the declaration under which this run has frozen the files of tasks."""
    has_taken_over: bool = False
    """Whether this run has taken the files of tasks over from another run that recorded the job."""
    loaded: LoadedManifests | None = None
    """The packs that the record names."""
    there: frozenset[str] | None = None
    """The directories that exist, as this run has seen before its record; None if it wrote none."""
    missing: frozenset[str] = frozenset()
    """The directories right above some that go whole that this run has seen to be missing, too."""
    plan: WholePlan = field(default_factory=WholePlan)
    """Which directories go whole, as this run has seen the files of its tasks."""
    publishing: ExitStack = field(default_factory=ExitStack)
    """Ends the heartbeat, before the clean-up."""
    is_beating: bool = False
    result: CommitResult = field(init=False)

    def __post_init__(self) -> None:
        self.patience, self.turn = Patience.of(self.context), Turn(self.context)
        self.listed, self.prepared = self.found.manifests, self.found.prepared
        if self.prepared is not None:
            self.name = self.prepared.owner.run

    def begin(self, first: Seen) -> None:
        """Begin at the state in which the job was found; the time to wait for other jobs begins now."""
        self.patience = Patience.of(self.context)
        self.progress.resumed = first.phase not in UNDECIDED

    def note_record(self, record: CommitRecord, *, is_own: bool = False) -> None:
        """Note the record of the job, which this run has written or read, and the turn that follows."""
        self.progress.record = record
        self.turn = turn_of(self.context, record, is_resumed=not is_own)

    def note_loaded(self, record: CommitRecord, loaded: LoadedManifests) -> None:
        """Note what the record names; from now on the manifests are not needed, which take 15 MB."""
        self.loaded, self.before = replace(loaded, manifests=()), {}
        resumed = self.progress.resumed
        self.context.emit(JobLoaded(record.tasks, record.files, record.bytes, resumed))

    def load(self, state: JobState, record: CommitRecord | None = None) -> LoadedManifests:
        """Load the manifests of an open job, or the packs that a record names."""
        if record is not None:
            return load_packs(self.context, record, self._roots(record.allowed_roots))
        statuses, self.listed = self.listed, None
        tasks = self.context.options.committed_tasks
        if tasks is not None:
            roots = self._roots(self.allowed_roots)
            # Manifests name files in `tasks`, also if these are frozen by now.
            context = replace(self.context, job=self.context.job.with_tasks_in())
            return load_ahead(context, self._ahead(state), tasks, roots)
        roots, stamp, before = self._roots(self.allowed_roots), state.stamp, self.before.get(state.stamp)
        if before is not None:
            return load_again(self.context, before, roots, stamp=stamp, statuses=statuses)
        return load_manifests(self.context, roots, stamp=stamp, statuses=statuses)

    def collect(self, loaded: LoadedManifests) -> None:
        """Tell a new coordinator what was loaded of an open job."""
        collect_packs(self.context, loaded.packs, self._roots(self.allowed_roots))

    def _ahead(self, state: JobState) -> LoadAhead:
        """What is loaded of the job's tasks; nothing of another job that has the same id."""
        if self.ahead is None or self.ahead.stamp != state.stamp:
            self.ahead = LoadAhead(lambda: self.context, state.stamp)
        return self.ahead

    def _roots(self, allowed: Sequence[str]) -> tuple[str, ...]:
        return self.context.job.destination, *allowed

    def start_workers(self, *, first_only: bool = False) -> None:
        """Wait for all workers, or the first; a stage where these are processes."""
        if self.context.executor.starts_workers:
            with self.context.stage(names.START_WORKERS):
                self.context.executor.start_workers(first_only=first_only)

    def beat(self, context: JobContext) -> None:
        """Show from now on that this run is alive, until the publication of the job ends."""
        if not self.is_beating:
            # A reader must see at once that a recorded job was taken over: its last sign is old (D10).
            at_once, self.is_beating = self.progress.resumed, True
            sign = heartbeat(context, self.name, lambda: self.progress.renamed.files, at_once=at_once)
            self.publishing.enter_context(sign)

    def stop_beating(self) -> None:
        """Show no sign of life any more."""
        self.publishing.close()
        self.is_beating = False


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job with a commit record, as the stages that publish it need it. `context` is what the record
    promises; `reload` loads the manifests again, if the coordinator was lost with them. The `plan` says
    what goes whole."""

    context: JobContext
    record: CommitRecord
    loaded: LoadedManifests
    reload: Callable[[], object]
    run: CommitRun
    plan: WholePlan


def load_open_job(run: CommitRun, current: Seen) -> LoadedManifests:
    """Load and check the manifests; `ManifestsChangedError` if they change during that time."""
    context, load = run.context, partial(run.load, current.state)
    run.start_workers(first_only=True)
    listing = listed_attempts(context, run.found.task_attempts)
    with context.stage(names.LOAD_MANIFESTS), listing as attempts:
        loaded = load_unchanged(context, lambda: load_with_coordinator(context, load))
        run.before = {current.state.stamp: loaded}
        if loaded.listing.is_frozen or run.loads or context.job.is_frozen:
            context, attempts = look_for_tasks(context, current.state, attempts)
            run.context = context
        loaded = bind_versions(context, loaded)
        if current.state.table is not None:
            loaded = replace(loaded, new_files=list_new_files(context, loaded.packs))
    with context.stage(names.PREFLIGHT):
        check = partial(preflight, context, loaded, run.allowed_roots)
        with_coordinator(context, check, partial(run.collect, loaded))
        refuse_unsaved(context, loaded, *attempts)
    if not run.record_only:
        run.start_workers()  # a cluster without room is found before the record
    return loaded


def open_recorded_job(run: CommitRun, current: Seen) -> RecordedJob:
    """The job as its record, perhaps of another run, defines it; with a heartbeat from now on."""
    record, progress = own_record(run, current), run.progress
    context, reload = run.context.as_recorded(record), partial(run.load, current.state, record)
    loaded = run.loaded
    if loaded is None:
        refuse_foreign_paths(context, record, (*run.replaced_roots, *run.allowed_roots))
        # What this run has planned is of its own packs, and these may name other attempts.
        progress.resumed, run.plan = True, WholePlan()
        # Once in a run: two that did it at each miss could go on for ever and move nothing.
        if not run.has_taken_over:
            run.context, run.has_taken_over = take_over(run.context, current), True
            context = run.context.as_recorded(record)
    # What this run has moved before another one overtook it is proved now.
    if progress.sealed != current:
        progress.renamed = Renamed()
    run.beat(context)
    if loaded is None:
        run.start_workers(first_only=True)
        with context.stage(names.LOAD_MANIFESTS):
            loaded = load_with_coordinator(context, reload)
        run.note_loaded(record, loaded)
        if current.phase is Phase.RECORDED or not run.turn.ends_with_its_commit:  # else all is moved
            run.plan = with_coordinator(context, partial(plan_again, context, loaded), reload)
    # Only what this run has frozen: by its old name another process could reach it.
    plan = run.plan if context.job.is_frozen else replace(run.plan, moves=NO_MOVES)
    return RecordedJob(context, record, loaded, reload, run, plan)


def own_record(run: CommitRun, current: Seen) -> CommitRecord:
    """The record of the job; it is read if this run has not written it."""
    if run.progress.record is not None:
        return run.progress.record
    record = load_commit_record(run.context.store, run.context.job, current.state)
    run.note_record(record)
    return record


def enter_state(run: CommitRun, entered: Seen) -> None:
    """Note the state; wait for another process that commits the job, as `wait_for_committer`."""
    run.progress.is_begun = run.progress.is_begun or entered.phase not in UNDECIDED
    # A live committer is left alone (D10): two runs at work on one job are safe, but do its work twice.
    if entered.phase in (Phase.RECORDED, Phase.SEALED) and run.progress.record is None:
        wait_for_committer(run.context, entered, run.patience, run.name)
