"""Claim the partitions that a job writes in the log of its table, before old files are listed.

The look at other jobs comes first: it finds jobs that were set up elsewhere. The claim gives the job its
place among all jobs of the table. A job that must wait withdraws its declaration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, PreflightError, RayCommitterError, mark
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.others import Choose
from ray_committer.job_files.owners import is_alive, owner_of
from ray_committer.protocol.claims import MOST_PARTITIONS, Obstacle, common_partitions, fold_partitions
from ray_committer.protocol.paths import is_inside, join
from ray_committer.protocol.record import ClaimedTable, ConflictMode
from ray_committer.protocol.state import JobState, TableBase
from ray_committer.protocol.table_entry import Isolation, TableClaim, WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import CommittedRun
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import Patience, withdraw
from ray_committer.stages.keep_replaced_files import refuse_what_cannot_be_kept
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.old_data.mode_roots import ModeRoots
from ray_committer.stages.other_jobs.other_attempts import abort_older_attempts
from ray_committer.stages.preflight import OldFiles
from ray_committer.stages.turns.end_claim import end_claim
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stages.turns.run_once import refuse_second_write, say_who_has_done_it
from ray_committer.stages.turns.turn import Turn
from ray_committer.stores.at_once import MANY
from ray_committer.tables.claim import Claimant
from ray_committer.tables.log import is_complete, require_definition
from ray_committer.tables.release import release_if_aborted, release_own


@dataclass(slots=True)
class TableTurn(Turn):
    """The turn of a job of a table with a log, before its record; `claimed` is its claim, once it is in
    the log. The job `keeps` the old files that it replaces, or deletes them."""

    claimant: Claimant
    base: TableBase
    keeps: bool = False
    claimed: ClaimedTable | None = None
    is_complete: bool = False

    @property
    def is_in_log(self) -> bool:
        return True

    @property
    def partitions(self) -> Sequence[str]:
        return self.claimant.claim.partitions

    @property
    def run_id(self) -> str | None:
        return self.claimant.claim.run_id

    def look(self) -> CommittedRun | Obstacle | None:
        return self.claimant.look()

    def take(self) -> Obstacle | None:
        """Put the claim of a declared job into the log, once; return the claim that must end first. The
        claims of aborted jobs, and of older attempts of this job, are ended. `CommitConflictError` if
        the claim is refused. `RunCommittedError` if another job has done the work of the run id."""
        if self.claimed is not None:
            return None
        # An aborted job's claim is in the way until it is ended: then this one is put after it (D7).
        while isinstance(answer := self.claimant.put(), Obstacle):
            if not self._is_released(answer.other):
                if answer.run_id is not None:
                    refuse_second_write(self.context, answer.other.claim, "was recorded")
                return answer
        if isinstance(answer, CommittedRun):
            raise say_who_has_done_it(self.context, self.claimant.claim, answer)
        # The claim may be one that an earlier run of this commit has put.
        _refuse_committed(self.context, answer)
        # Older attempts give way, and their claims would hold up each job in these partitions (D8).
        for pending in self.claimant.other_attempts():
            self._is_released(pending)
        claim = answer.claim
        self.claimed = ClaimedTable(
            self.base.table_id,
            answer.version,
            claim.quiet,
            claim.named,
            self.keeps,
            end=self.claimant.end,
        )
        return None

    def wait(self, declared: Seen, obstacle: Obstacle, patience: Patience) -> Seen:
        """Withdraw, then end the job of the claim in the way, or wait a little for it.
        `CommitConflictError`, with the declaration withdrawn, if there is no patience left."""
        # First: the job of that claim may be waiting for this one to withdraw (D3).
        after = withdraw(self.context, declared)
        is_later = self.claimant.is_later_than(obstacle.other.claim)
        if not end_claim(self.context, obstacle, patience, is_later=is_later):
            patience.wait()
        return after

    @property
    def choose(self) -> Choose:
        return self.must_look_for

    def must_look_for(self, count: int) -> Collection[str] | None:
        """Of so many jobs at the destination, the ids of those to look at, besides those that were taken
        away; None for all. In a complete table each job has a turn, so the log judges it. That leaves
        the jobs with a claim whose process may have died, also just after the commit."""
        # A few directories cost less than the question whether the table is complete.
        if count < MANY or not self._is_complete():
            return None
        now = self.context.now_milliseconds()
        claims = [pending.claim for pending in self.claimant.others]
        # A live job goes by its claim; of others, only the directory shows whether a commit has begun.
        return {
            claim.job_id for claim in claims if not is_alive(claim.owner, claim.at_milliseconds, now)
        }

    def _is_complete(self) -> bool:
        self.is_complete = self.is_complete or is_complete(
            self.context.store, TablePlaces(self.context.job.destination), self.base.table_id
        )
        return self.is_complete

    def before(self) -> Sequence[ClaimInFlight]:
        return self.claimant.before(self.claimed.version) if self.claimed is not None else []

    def refuse_what_cannot_be_kept(self, old: OldFiles) -> None:
        if self.keeps and self.claimed is not None:
            refuse_what_cannot_be_kept(self.context, old, self.claimed.version)

    def give_up(self, aborted: JobState) -> None:
        context = self.context
        release_own(context.store, context.job, aborted, context.now_milliseconds())

    def explain(self, error: RayCommitterError) -> RayCommitterError:
        if self.claimed is not None:
            version = self.claimed.version
            error.advise(
                f"the log of the table still has the claim of this job (version {version}), "
                f"for which other jobs wait: run the same command again, or give the job up with: "
                f"{abort_command(self.context.store, self.context.job)}"
            )
        return error

    def _is_released(self, pending: ClaimInFlight) -> bool:
        context = self.context
        if pending.claim.job_id == context.job.job_id:
            abort_older_attempts(context.store, context.job)
        table = TablePlaces(context.job.destination)
        return release_if_aborted(context.store, table, pending, context.now_milliseconds())


def begin_turn(
    context: JobContext,
    state: JobState,
    loaded: LoadedManifests,
    roots: ModeRoots,
    run: str,
    run_id: str | None = None,
) -> Turn:
    """Read the log of the job's table, if it belongs to one. `PreflightError` if the log cannot hold
    what the job does. `TableLogError` if it is another table than at the set-up."""
    base = state.table
    if base is None:
        return Turn(context)
    table = TablePlaces(context.job.destination)
    # By the id that set-up has noted: a table that was made again has another log, with other claims.
    definition = require_definition(context.store, table, base.table_id)
    keeps = context.options.keep_replaced
    keeps = definition.keep_replaced if keeps is None else keeps
    if keeps:
        context.output.refuse_to_keep(context.job.destination)
    claim = _claim_of(context, state, base, loaded, roots, run)
    claim = structs.replace(claim, keeps=keeps, run_id=claim.run_id or run_id)
    if context.options.table_work is not None:  # it depends on what its plan has seen, at any level
        definition = structs.replace(definition, isolation=Isolation.SERIALIZABLE)
    to_end = context.options.table_work is None  # that has read a version, not what set-up has seen
    return TableTurn(
        context, Claimant(context.store, table, definition, claim, to_end=to_end), base, keeps
    )


def _claim_of(
    context: JobContext,
    state: JobState,
    base: TableBase,
    loaded: LoadedManifests,
    roots: ModeRoots,
    run: str,
) -> TableClaim:
    work = context.options.table_work
    partitions = _partitions(context, loaded, roots)
    if work is not None:
        partitions = fold_partitions((*partitions, *work.partitions))
    reads = fold_partitions(path.removesuffix("/") for path in context.options.reads)
    if reads and base.read is None:
        raise PreflightError(
            f"{mark(context.job.directory)}: names partitions that it has read, but its set-up did not "
            "note which version of the table",
            "nothing was changed: set up the job with this package, or commit it without `reads`",
        )
    _check_read(context, reads)
    return TableClaim(
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        nonce=state.stamp,
        mode=work.mode if work else _mode(context, partitions, reads),
        base=work.base if work else base.read,
        partitions=partitions,
        reads=reads,
        replaces=None if work else _replaces(context, roots),
        files=loaded.new_files,
        manifests=digest_of((ref.name, ref.digest) for ref in loaded.manifests),
        owner=owner_of(run),
        run_id=work.run_id if work else None,
        undoes=work.undoes if work else None,
        at_milliseconds=context.now_milliseconds(),
    )


def _check_read(context: JobContext, reads: Sequence[str]) -> None:
    """`PreflightError` for a missing directory that is no partition: it may be misspelled."""
    for path in reads:
        place = join(context.job.destination, path)
        is_partition = all("=" in name for name in path.split("/"))
        if path and not is_partition and context.store.get_status(place) is None:
            raise PreflightError(
                f"{mark(place)}: is not there, although the job has read it (`reads`)",
                "nothing was changed: name the directories of partitions as they are, such as day=1, "
                "and run the same command",
            )


def _refuse_committed(context: JobContext, pending: ClaimInFlight) -> None:
    """Refuse to go on with a job that is committed by its log, but not by its state."""
    job = context.job
    if pending.committed is not None:
        raise CommitStateUnknownError(
            f"{mark(TablePlaces(job.destination).entry(pending.committed))}: says that job {job.job_id} "
            "is committed, but the job's state does not",
            "nothing was done: find out who has changed the log or the job's directory",
        )


def _partitions(context: JobContext, loaded: LoadedManifests, roots: ModeRoots) -> list[str]:
    """The directories that the job writes to, or wants to be empty, relative to the destination. One
    behind a symbolic link has two names: the other jobs may know only the other one."""
    destination = context.job.destination
    paths = {*roots.replaced, *roots.empty, *context.executor.directories.share(0, 1)}
    paths.update((destination,) if loaded.fills_destination else ())
    names = {relative(destination, path) for path in paths}
    return fold_partitions(names | _linked(context, paths))


def _linked(context: JobContext, paths: Iterable[str]) -> set[str]:
    """The names that some directories have without symbolic links, if these are in the table."""
    real = context.store.real_path
    destination = real(context.job.destination)
    real_paths = {real(path) for path in paths}
    return {
        relative(destination, real_path)
        for real_path in real_paths
        if real_path == destination or is_inside(real_path, destination)
    }


def _replaces(context: JobContext, roots: ModeRoots) -> list[str] | None:
    """The directories whose old files the job removes; None if they are too many to be named."""
    if len(roots.replaced) > MOST_PARTITIONS:
        return None
    return fold_partitions(relative(context.job.destination, path) for path in roots.replaced)


def _mode(context: JobContext, partitions: Sequence[str], reads: Sequence[str]) -> WriteMode:
    mode = context.options.mode
    if mode.replaces:
        derived = common_partitions(partitions, reads)
        return WriteMode.REPLACE if derived else WriteMode.OVERWRITE
    return WriteMode.APPEND if mode is ConflictMode.APPEND else WriteMode.CREATE


def digest_of(manifests: Iterable[tuple[str, str]]) -> str:
    """The digest of a job's manifests, each with its name and its own digest: its claim has it."""
    lines = sorted(f"{name}\0{digest}\n" for name, digest in manifests)
    return sha256("".join(lines).encode()).hexdigest()
