"""Claim the partitions that a job writes: read the log, judge, and put the claim at its end.

A claim is put only at the version after all entries that it was judged against. So if another process is
faster, its entry is read and the claim is judged again. A claim that waits is not in the log: it holds
nothing, and no other job waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from ray_committer.errors import CommitAbortedError, CommitConflictError, mark, some_of
from ray_committer.job_files.commands import abort_command
from ray_committer.limits.waiting import Waiting
from ray_committer.protocol.claims import (
    WHOLE_TABLE,
    Obstacle,
    Verdict,
    common_partitions,
    judge,
    same_run,
)
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_entry import TableClaim, TableDefinition, is_abort_of
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import CommittedRun, run_after
from ray_committer.protocol.table_state import ClaimInFlight, TableState, ended_since, follow
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.among_others import Entrant
from ray_committer.tables.checkpoint import read_since
from ray_committer.tables.log import read_entries
from ray_committer.tables.release import how_to_end
from ray_committer.tables.runs import read_run


class Claimant:
    """A claim on its way into the log, and what it was judged by so far.

    Of the log it reads each entry once, however often the claim has to wait. With `to_end`, the base of
    the claim is the end of the file with that version.
    """

    def __init__(
        self,
        store: StoreOperations,
        table: TablePlaces,
        definition: TableDefinition,
        claim: TableClaim,
        *,
        to_end: bool = False,
    ) -> None:
        self._store, self._table, self._isolation = store, table, definition.isolation
        table_id, base = definition.table_id, claim.base
        # Entries before the base are not read again: the files that the job has read were listed at that
        # version, and what was committed later is what it must be judged by (isolation).
        self._base, self._entries = read_since(store, table, table_id, base, to_end=to_end)
        self.claim = claim if base is None else structs.replace(claim, base=self._base.version)
        self._is_fresh = True
        self._run: CommittedRun | None = None
        if claim.run_id is not None:
            self._run = read_run(store, table, table_id, claim.run_id, self._base.version)

    def put(self) -> ClaimInFlight | CommittedRun | Obstacle:
        """Put the claim at the end of the log, unless another one must end first, or another job has
        committed its run id.

        If another run of the same commit has put the same claim, that one is returned. So is any claim
        of this job that was committed since the claim's base, with the version of its commit.
        `CommitConflictError` if it is refused, `CommitAbortedError` if the log says that the job was
        aborted.
        """
        with Entrant(self._store, self._table, self._base.version) as entrant:
            return self._put(entrant)

    @property
    def end(self) -> int:
        """The last version that was read, which ends a file."""
        return self._base.version + len(self._entries)

    def look(self) -> CommittedRun | Obstacle | None:
        """What the claim would wait for, or what has done its work; `CommitConflictError` as `put`."""
        self._look()
        ended, state = ended_since(self._base, self._entries)
        return None if _own(self.claim, ended, state) else self._judge(ended, state)

    def _put(self, entrant: Entrant) -> ClaimInFlight | CommittedRun | Obstacle:
        written: TableClaim | None = None
        # Each round judges the claim by exactly the entries that it is put after. Whoever was faster has
        # put an entry at that version: then the file is not written, and the next round judges by that
        # entry, too.
        while True:
            is_known = self._is_fresh  # the log may have changed since: before a wait it is read again
            self._look()
            ended, state = ended_since(self._base, self._entries)
            # First: another run of the same commit may have put the claim, also one that has ended
            # since. To put it again would commit the files twice.
            if (mine := _own(self.claim, ended, state)) is not None:
                return mine
            # Before the judgement: a job that was given up waits for nobody.
            self._refuse_aborted()
            verdict = self._judge(ended, state)
            # The judgement rests on entries of an earlier round; the obstacle may have ended since. Only
            # a look at the end of the log makes it worth a wait.
            if verdict is not None and is_known:
                continue
            if verdict is not None:
                return verdict
            # Once for all rounds, so that the draft stays the same file. Any quiet version before the
            # claim will do, and `named` only says when a checkpoint is due.
            if written is None:
                named = state.named + self.claim.files.files
                written = structs.replace(self.claim, quiet=state.quiet, named=named)
            # These are the entries that are there now, of this process or of others: which, the next
            # round shows. So the answer to the request is never needed.
            self._entries += entrant.put(written, self._entries)
            self._is_fresh = True

    def _judge(
        self, ended: Iterable[ClaimInFlight], state: TableState
    ) -> CommittedRun | Obstacle | None:
        at_work = self._of_others(state.in_flight)
        # While another job with this run id is in flight it is not known whether that one commits, so it
        # is waited for (an obstacle) before the run id counts as done.
        if same_run(self.claim, at_work) is None and (run := self._committed_run()) is not None:
            return run
        obstacle = judge(self.claim, self._of_others(ended), at_work, self._isolation)
        if obstacle is not None and obstacle.verdict is Verdict.REFUSED:
            raise _refused(self._store, self._table, self.claim, obstacle)
        return obstacle

    def _committed_run(self) -> CommittedRun | None:
        """The work of the claim's run id, if another job has done it; an undo frees the id."""
        claim = self.claim
        if claim.run_id is None:
            return None
        run = self._run
        for pending in follow(self._base, self._entries)[1]:
            run = run_after(run, pending) if pending.claim.run_id == claim.run_id else run
        # A claim that undoes this very version carries its run id on purpose.
        if run is None or run.undone or run.version == claim.undoes:
            return None
        if claim.undoes is not None:
            raise CommitConflictError(
                f"{mark(self._table.destination)}: run id {claim.run_id} is committed again as version "
                f"{run.version}, so version {claim.undoes} cannot be undone",
                f"nothing was changed: undo version {run.version} first",
            )
        return run

    @property
    def others(self) -> list[ClaimInFlight]:
        """The claims of others in flight, and those that have ended since the base, as far as known."""
        ended, state = ended_since(self._base, self._entries)
        return self._of_others((*state.in_flight, *ended))

    def other_attempts(self) -> list[ClaimInFlight]:
        """The claims in flight of other attempts of the same job."""
        state = ended_since(self._base, self._entries)[1]
        rivals = self._of_others(state.in_flight)
        return [pending for pending in rivals if pending.claim.job_id == self.claim.job_id]

    def is_later_than(self, rival: TableClaim) -> bool:
        """Whether the job attempt has a claim in flight, and the attempt of `rival` had one before."""
        state = ended_since(self._base, self._entries)[1]
        ours = (pending.version for pending in state.in_flight if self.claim.repeats(pending.claim))
        theirs = (pending.version for pending in state.in_flight if rival.repeats(pending.claim))
        # By the first claims, not by those for the present work: two jobs that each wait for the other's
        # earlier claim must agree on which one goes.
        return next(ours, 0) > next(theirs, 0)

    def before(self, version: int) -> list[ClaimInFlight]:
        """The claims of other jobs in flight before a version, in the partitions of this one."""
        state, claim = ended_since(self._base, self._entries)[1], self.claim
        return [
            pending
            for pending in state.in_flight
            if pending.version < version
            and pending.claim.job_id != claim.job_id
            and common_partitions(claim.partitions, pending.claim.partitions)
        ]

    def _of_others(self, claims: Iterable[ClaimInFlight]) -> list[ClaimInFlight]:
        return [pending for pending in claims if not self.claim.repeats(pending.claim)]

    def _refuse_aborted(self) -> None:
        job_id, job_attempt = self.claim.job_id, self.claim.job_attempt
        # The claim may be older than the base: then it is only in the state that the base sums up.
        before = [(pending.version, pending.claim) for pending in self._base.in_flight]
        mine = {version for version, entry in (*before, *self._entries) if self.claim.repeats(entry)}
        if any(is_abort_of(entry, job_id, job_attempt, mine) for _, entry in self._entries):
            raise CommitAbortedError(
                f"{mark(self._table.destination)}: the log of the table says that job {job_id} was "
                "aborted",
                "nothing was changed: run its application again",
            )

    def _look(self) -> None:
        if not self._is_fresh:
            self._entries += read_entries(self._store, self._table, self.end, is_end=True)
        self._is_fresh = False


def claim_partitions(
    store: StoreOperations,
    table: TablePlaces,
    definition: TableDefinition,
    claim: TableClaim,
    waiting: Waiting,
) -> ClaimInFlight:
    """Put a claim into the log as soon as no other job is in its way; the claim with its version. As
    `Claimant.put`; also `CommitConflictError` if `waiting` is over. It is not in the log then."""
    claimant = Claimant(store, table, definition, claim)
    # A claim that waits is not in the log, so giving up leaves nothing there.
    while not isinstance(answer := claimant.put(), ClaimInFlight):
        if isinstance(answer, CommittedRun):
            raise AssertionError(f"{claim.job_id}: is a job of this package, which has no run id")
        if waiting.is_over:
            raise waited_too_long(store, table, answer, waiting.seconds)
        waiting.wait()
    return answer


def _own(claim: TableClaim, ended: Sequence[ClaimInFlight], state: TableState) -> ClaimInFlight | None:
    """The claim of the same job attempt, if it was committed, or is in flight for the same work."""
    committed = (
        pending for pending in ended if pending.committed is not None and claim.repeats(pending.claim)
    )
    return next(committed, None) or state.own(claim)


def _refused(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, obstacle: Obstacle
) -> CommitConflictError:
    rival = obstacle.other
    give_up = abort_command(store, new_job_attempt(table.destination, claim.job_id, claim.job_attempt))
    return CommitConflictError(
        f"{mark(table.destination)}: job {rival.claim.job_id} (version {rival.version}) has written to "
        f"{_shown(obstacle)}, which job {claim.job_id} has read at version {claim.base}",
        f"nothing was changed: give this job up with: {give_up}; then run its application again",
    )


def waited_too_long(
    store: StoreOperations,
    table: TablePlaces,
    obstacle: Obstacle,
    seconds: float,
    advice: str | None = None,
) -> CommitConflictError:
    """The error for a claim that has waited; `advice` if other commands than usual end the other job."""
    advice = advice or how_to_end(store, table, obstacle.other)
    return CommitConflictError(
        f"{at_work(table, obstacle)}, and this job must not be at the same time (waited {seconds:g} s)",
        f"nothing was changed: {advice}; then run the same command",
    )


def at_work(table: TablePlaces, obstacle: Obstacle) -> str:
    """The job that is in the way, and where."""
    rival = obstacle.other
    return (
        f"{mark(table.destination)}: job {rival.claim.job_id} (version {rival.version}) is at work in "
        f"{_shown(obstacle)}"
    )


def _shown(obstacle: Obstacle) -> str:
    paths = obstacle.partitions
    shown = "the whole table" if WHOLE_TABLE in paths else some_of(paths)
    return shown if obstacle.run_id is None else f"{shown}, under run id {obstacle.run_id}"
