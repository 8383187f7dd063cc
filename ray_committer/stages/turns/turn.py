"""What a commit asks of the log of its job's table, which puts the jobs of the table in order.

A commit does not ask whether there is a log: for a job without one, `Turn` itself answers. `claim_table`
answers before the job is recorded, and `commit_in_table` after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ray_committer.errors import RayCommitterError, mark
from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.others import Choose, look_for_all
from ray_committer.protocol.claims import Obstacle
from ray_committer.protocol.record import ClaimedTable
from ray_committer.protocol.state import JobState
from ray_committer.protocol.table_runs import CommittedRun
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.context import JobContext
from ray_committer.stages.declare_job import Patience
from ray_committer.stages.preflight import OldFiles


@dataclass(slots=True)
class Turn:
    """The turn of a job among the jobs of its table, as far as it has one."""

    context: JobContext

    # Before the record

    @property
    def is_in_log(self) -> bool:
        """Whether old files must not be listed, nor the record written, before `take`."""
        return False

    @property
    def claimed(self) -> ClaimedTable | None:
        """What the record says of the claim that `take` has made."""
        return None

    @property
    def partitions(self) -> Sequence[str]:
        """What the job claims."""
        return ()

    @property
    def run_id(self) -> str | None:
        """The run id of the claim."""
        return None

    def look(self) -> CommittedRun | Obstacle | None:
        """What `take` would meet now."""
        return None

    def take(self) -> Obstacle | None:
        """Put the claim of a declared job into the log, once; return the claim that must end first."""
        return None

    def wait(self, declared: Seen, obstacle: Obstacle, patience: Patience) -> Seen:
        """Withdraw, then end the job in the way, or wait a little; the state after that."""
        raise NotImplementedError(f"{obstacle}: is an obstacle to no job without a log")

    @property
    def choose(self) -> Choose:
        """Which of the jobs at the destination this one must look at."""
        return look_for_all

    def before(self) -> Sequence[ClaimInFlight]:
        """The claims of other jobs that were in flight before this one, in the same partitions."""
        return ()

    def refuse_what_cannot_be_kept(self, old: OldFiles) -> None:
        """`PreflightError` if the job keeps the old files that it replaces, and one cannot be kept."""

    def give_up(self, aborted: JobState) -> None:
        """End the claim of a job that another process has aborted, perhaps before this run's claim."""

    def explain(self, error: RayCommitterError) -> RayCommitterError:
        """The error; it also says if a claim stays in the log."""
        return error

    # After the record

    @property
    def ends_with_its_commit(self) -> bool:
        """Whether the turn of a sealed job is over with its commit, because no old file gives way to it.
        All of its files were in place when it was sealed, and later jobs can have removed them since."""
        return False

    def commit(self) -> int | None:
        """Say in the log that the sealed job is committed; the version of that. Idempotent."""
        return None

    def end(self) -> None:
        """Say in the log that the old files of the job are gone; idempotent."""

    def conclude(self) -> int | None:
        """Do what is due after the commit; the version of that. Failures are notices."""
        if self.context.options.export_delta:
            where = self.context.job.destination
            self.context.notice(f"{mark(where)}: is not a table with a log, so nothing was exported")
        return None
