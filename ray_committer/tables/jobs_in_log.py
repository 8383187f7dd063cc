"""What the log of a table holds of a job: its claim, and the version at which it was committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ClaimedTable
from ray_committer.protocol.table_entry import TableClaim, TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_since
from ray_committer.tables.log import read_definition, read_entries


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job in the log: the version and the partitions of its `claim`, and the version of its commit,
    if it has one."""

    claim: int
    partitions: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class JobsInLog:
    """The claims in flight in the log of a destination, and the last `version` there; none if it has no
    log."""

    store: StoreOperations
    in_flight: list[ClaimInFlight] = field(default_factory=list)
    version: int | None = None

    def of(
        self, job: JobAttempt, stamp: str | None = None, recorded: ClaimedTable | None = None
    ) -> LoggedJob | None:
        """What the log holds of a job with this `stamp`, or any stamp; `recorded` is the claim that its
        record names."""
        found = [one for one in self.in_flight if _is_of(one.claim, job, stamp)]
        if recorded is not None:
            found = [one for one in found if one.version == recorded.version]
        if found:
            last = found[-1]
            return LoggedJob(last.version, tuple(last.claim.partitions), last.committed)
        if recorded is None:
            return None
        entries = read_entries(self.store, TablePlaces(job.destination), recorded.version)
        commits = (
            version
            for version, one in entries
            if isinstance(one, TableCommit) and one.claim == recorded.version
        )
        return LoggedJob(recorded.version, version=next(commits, None))


def read_jobs_in_log(store: StoreOperations, destination: str) -> JobsInLog:
    """Read the claims in flight; one request at a destination without a log."""
    table = TablePlaces(destination)
    definition = read_definition(store, table)
    if definition is None:
        return JobsInLog(store)
    state = read_since(store, table, definition.table_id)[0]
    return JobsInLog(store, state.in_flight, state.version)


def _is_of(claim: TableClaim, job: JobAttempt, stamp: str | None) -> bool:
    is_attempt = (claim.job_id, claim.job_attempt) == (job.job_id, job.number)
    return is_attempt and stamp in (None, claim.nonce)
