"""What a commit decides before its record: all that other jobs do not change, and the record itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import mark
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.owners import nobody, owner_of
from ray_committer.protocol.record import Claim, CommitRecord
from ray_committer.protocol.state import new_nonce
from ray_committer.stages.checks.sources import SourcesLook
from ray_committer.stages.context import JobContext
from ray_committer.stages.freeze_manifests import are_as_loaded
from ray_committer.stages.freeze_tasks import holds_tasks
from ray_committer.stages.load_manifests import LoadedManifests, ManifestsChangedError
from ray_committer.stages.old_data.mode_roots import ModeRoots, claim_of, roots_of_mode
from ray_committer.stages.plan_moves import plan_moves
from ray_committer.stages.preflight import OldFiles, look_at_data
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stages.run.coordinator_loss import with_coordinator
from ray_committer.stages.turns.claim_table import begin_turn
from ray_committer.stages.turns.turn import Turn
from ray_committer.tables.other_tables import refuse_partitions_of_tables


@dataclass(frozen=True, slots=True)
class Decision:
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
        moves_here = self.context.job.is_frozen
        plan = partial(plan_moves, self.context, look, old.there, moves_here=moves_here)
        self.run.plan = with_coordinator(self.context, plan, self.load)

    @property
    def is_known(self) -> bool:
        """Whether the record is known before the look: the job replaces and claims nothing."""
        return not self.claim.excludes and not self.turn.is_in_log

    def record(self, loaded: LoadedManifests, last: Seen, old: OldFiles) -> CommitRecord:
        """What is recorded; under a new nonce, so no state names it before."""
        run, context, turn = self.run, self.context, self.turn
        # A late task learns only by the digests whether its manifest counts, where it can replace that.
        may_replace = context.places.keeps_manifests(context.job)
        return CommitRecord(
            nonce=new_nonce(),
            stamp=last.state.stamp,
            job_id=context.job.job_id,
            job_attempt=context.job.number,
            created_milliseconds=context.now_milliseconds(),
            owner=nobody(run.name) if run.record_only else owner_of(run.name),
            claim=self.claim,
            packs=[pack.ref for pack in loaded.packs],
            tasks=loaded.tasks,
            digests=sorted(ref.digest for ref in loaded.manifests if may_replace),
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
            run_id=self.run_id,
            is_undoable=context.old_files.puts_aside and not old.overwritten and not turn.is_in_log,
        )


def prepare(run: CommitRun, last: Seen, loaded: LoadedManifests) -> Decision:
    """All that the decision needs and that other jobs do not change."""
    context, allowed_roots, work = run.context, run.allowed_roots, run.context.options.table_work
    refuse_partitions_of_tables(context.store, (context.job.destination, *allowed_roots))
    load = partial(run.collect, loaded)
    roots = roots_of_mode(context, loaded, run.replaced_roots)
    run_id = work.run_id if work is not None else run.run_id
    claims = partial(claim_of, context, loaded, roots, allowed_roots)
    claim = with_coordinator(context, claims, load)
    _warn_of_network(context, claim)
    decision = Decision(run, loaded, load, roots, claim, run.turn, run_id)
    if loaded.source_errors:
        # The sources belong to an earlier manifest, or another run has frozen them.
        if not are_as_loaded(context, loaded) or not holds_tasks(context, last.state):
            raise ManifestsChangedError
        decision.look_at_data(loaded)
    begin = partial(begin_turn, context, last.state, loaded, roots, run.name, run_id)
    run.turn = with_coordinator(context, begin, load)
    return replace(decision, turn=run.turn)


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
