"""What the log of a table holds of a job: its claim, and how that ended.

A job's directory is deleted when it has ended, and ``_SUCCESS`` is the last job's. The log stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ray_committer.errors import AmbiguousJobError, CommitStateUnknownError, TableLogError, mark
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import ClaimedTable
from ray_committer.protocol.table_entry import NO_CLAIM, LogEntry, TableAbort, TableClaim, TableCommit
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import read_since, read_state
from ray_committer.tables.log import Entries, read_definition, read_entries
from ray_committer.tables.release import job_of


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job in the log: the version and the partitions of its `claim`, and the version of its commit."""

    claim: int
    partitions: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class JobsInLog:
    """The claims in flight in the log of a destination, and its last `version`; none without a log."""

    store: StoreOperations
    in_flight: list[ClaimInFlight] = field(default_factory=list)
    version: int | None = None

    def of(
        self, job: JobAttempt, stamp: str | None = None, recorded: ClaimedTable | None = None
    ) -> LoggedJob | None:
        """What the log holds of a job with this `stamp`, or any; `recorded` is its record's claim."""
        claims = [pending for pending in self.in_flight if _is_of(pending.claim, job, stamp)]
        # The record names its claim: an earlier run may have left another one of the same job attempt.
        if recorded is not None:
            claims = [pending for pending in claims if pending.version == recorded.version]
        if claims:
            last = claims[-1]
            return LoggedJob(last.version, tuple(last.claim.partitions), last.committed)
        if recorded is None:
            return None
        entries = read_entries(self.store, TablePlaces(job.destination), recorded.version)
        commits = (
            version
            for version, entry in entries
            if isinstance(entry, TableCommit) and entry.claim == recorded.version
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


@dataclass(frozen=True, slots=True)
class Logged:
    """A claim, and the versions of the entries about it: `committed`, `aborted`, or both None; and
    whether it is in flight. `others` are earlier claims in flight of the same job attempt; `given_up`
    are all claims of the job id that were given up, if none is in flight."""

    version: int
    claim: TableClaim
    committed: int | None = None
    aborted: int | None = None
    in_flight: bool = True
    others: tuple[ClaimInFlight, ...] = ()
    given_up: tuple[TableClaim, ...] = ()

    @property
    def number(self) -> int:
        """The number of the job attempt."""
        return self.claim.job_attempt

    @property
    def ended(self) -> int | None:
        """The version of the entry that says how the job has ended."""
        return self.aborted if self.committed is None else self.committed

    @property
    def is_committed(self) -> bool:
        """Whether that entry commits it."""
        return self.committed is not None

    @property
    def is_open(self) -> bool:
        """Whether nothing decides it."""
        return self.ended is None

    @property
    def has_ended(self) -> bool:
        """Whether it is over: while a claim is in flight, old files may still be there."""
        return not (self.in_flight or self.is_open)


@dataclass(frozen=True, slots=True)
class AbortedWithoutClaim:
    """The log says in the version `ended` that a job attempt was aborted before it had a claim."""

    ended: int
    number: int
    claim: None = None
    is_committed: bool = False
    has_ended: bool = True


def find_logged(
    store: StoreOperations, table: TablePlaces, table_id: str, job_id: str, number: int | None
) -> Logged | AbortedWithoutClaim | None:
    """What the log says last of a job, or of one attempt: its claim in flight or, if there is none, its
    last one. If the id was used again, a job that is gone comes first, and then the earlier one.

    `AmbiguousJobError` if several attempts have a claim in flight. Reads the whole log if none has.
    """
    state = read_state(store, table, table_id)
    mine = [pending for pending in state.in_flight if _is_named(pending.claim, job_id, number)]
    numbers = sorted({pending.claim.job_attempt for pending in mine})
    if len(numbers) > 1:
        raise AmbiguousJobError(
            f"{mark(table.log)}: has claims in flight of the attempts {numbers} of job {job_id}",
            "name one with --attempt",
        )
    if mine:
        # A job that is gone comes first: nobody but this command can end its claim.
        first = next(
            (pending for pending in mine if job_of(store, table, pending.claim) is None), mine[0]
        )
        *earlier, last = (pending for pending in mine if first.claim.repeats(pending.claim))
        return Logged(last.version, last.claim, last.committed, others=tuple(earlier))
    entries = read_entries(store, table)
    ended = _last_claim(entries, job_id, number)
    aborted = _last_without(entries, job_id, number if ended is None else ended.claim.job_attempt)
    # An abort without a claim that is later than the last claim is about another job of the id, which
    # counts.
    if ended is None or (aborted is not None and aborted.ended > ended.version):
        return aborted
    named = [numbered for numbered in entries if _is_named(numbered[1], job_id, number)]
    claims = {version: entry for version, entry in named if isinstance(entry, TableClaim)}
    aborts = (entry.claim for _, entry in entries if isinstance(entry, TableAbort))
    return replace(ended, given_up=tuple(claims[claim] for claim in aborts if claim in claims))


def _is_named(entry: LogEntry, job_id: str, number: int | None) -> bool:
    return entry.job_id == job_id and number in (None, entry.job_attempt)


def _last_claim(entries: Entries, job_id: str, number: int | None) -> Logged | None:
    """The last claim; of several of one attempt, that which was committed."""
    last: Logged | None = None
    claims: dict[int, TableClaim] = {}
    for version, entry in entries:
        if isinstance(entry, TableClaim):
            if _is_named(entry, job_id, number):
                claims[version], last = entry, Logged(version, entry, in_flight=False)
        elif last is None or not last.is_open or not last.claim.repeats(claims.get(entry.claim, entry)):
            continue
        elif isinstance(entry, TableCommit):
            # The commit names the claim that counts, which need not be the last one of the attempt.
            last = Logged(entry.claim, claims[entry.claim], version, in_flight=False)
        elif isinstance(entry, TableAbort) and entry.claim == last.version:
            last = replace(last, aborted=version)
    return last


def _last_without(entries: Entries, job_id: str, number: int | None) -> AbortedWithoutClaim | None:
    aborts = (
        AbortedWithoutClaim(version, entry.job_attempt)
        for version, entry in reversed(entries)
        if isinstance(entry, TableAbort) and entry.claim == NO_CLAIM and _is_named(entry, job_id, number)
    )
    return next(aborts, None)


def what_became(
    store: StoreOperations, destination: str, job_id: str, number: int | None
) -> Logged | AbortedWithoutClaim | None:
    """What the log says last of a job; None if nothing, or if there is no log, which costs one request.
    `CommitStateUnknownError` if the log cannot be read. Other errors as `find_logged`."""
    table = TablePlaces(destination)
    try:
        definition = read_definition(store, table)
        if definition is None:
            return None
        return find_logged(store, table, definition.table_id, job_id, number)
    except TableLogError as e:
        what, advice = e.parts
        raise CommitStateUnknownError(
            f"{what}; so it is not known what became of job {job_id}", advice
        ) from e
