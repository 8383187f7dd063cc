"""Compare the directory of a table with its log, and repair what can be repaired without a risk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.job_files.commands import resolve_command
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import shown_url
from ray_committer.table_jobs import compare_table as stage
from ray_committer.table_jobs.decide_claim import Repair
from ray_committer.table_jobs.remove_orphans import end_interrupted
from ray_committer.table_jobs.resolve_claim import unknown_if_it_fails
from ray_committer.tables.checkpoint import read_state
from ray_committer.tables.release import commands_to_end, job_of


@dataclass(frozen=True, slots=True)
class ScannedClaim:
    """A claim in flight: its version, its job, and the state of that job, None if the job is gone.

    commands: the commands that end it, of which one is enough.
    """

    version: int
    job_id: str
    job_attempt: int
    state: str | None
    is_committed: bool
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableScan:
    """The differences between the directory of a table and its log at `version`.

    compared: the number of files of the log.
    foreign: files that no entry names, except those that were `imported`.
    orphans: files that only a claim names that was given up; `orphan_commands` remove them.
    missing, changed: files of the log that are not there, or are others than the log says.
    claims: the claims in flight.
    imported: the number of files that this scan has put into the log.
    """

    destination: str
    version: int
    compared: int
    foreign: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    orphan_commands: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    claims: tuple[ScannedClaim, ...] = ()
    imported: int = 0

    @property
    def agrees(self) -> bool:
        """Whether the log and the directory agree, and no claim is in flight whose job is gone."""
        differ = self.foreign or self.orphans or self.missing or self.changed
        return not differ and all(claim.state is not None for claim in self.claims)


def scan_table(
    dest: str,
    *,
    import_foreign: bool = False,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> TableScan:
    """Compare the files at `dest` with the log of the table; jobs can be at work.

    With `import_foreign`, the log gets a job that names the foreign files. It waits for jobs that are at
    work in the same partitions.

    `JobNotFoundError` if `dest` is not a table with a log. `CommitConflictError` if another job is at
    work there for too long.
    """
    waiting = Waiting(options.conflict_wait_seconds)
    with (
        open_here(dest, options, storage_options) as (store, destination),
        unknown_if_it_fails(destination) if import_foreign else nullcontext(),
    ):
        return scan_on(store, destination, import_foreign=import_foreign, waiting=waiting)


def scan_on(
    store: StoreOperations, destination: str, *, import_foreign: bool = False, waiting: Waiting
) -> TableScan:
    """`scan_table` on a store that is open."""
    repair = Repair.at(store, destination, waiting)
    if import_foreign:
        end_interrupted(repair)
    scanned = stage.scan_table(repair)
    result = _result(repair, scanned)
    if import_foreign and scanned.foreign:
        stage.import_foreign(repair, scanned.foreign)
        result = replace(result, foreign=(), imported=len(scanned.foreign))
    return result


def _result(repair: Repair, scanned: stage.Scanned) -> TableScan:
    store, destination = repair.store, repair.table.destination
    resolve = partial(resolve_command, store, destination)
    return TableScan(
        shown_url(store.spec, destination),
        scanned.state.version,
        scanned.compared,
        tuple(file.p for file in scanned.foreign),
        tuple(scanned.orphans),
        tuple(dict.fromkeys(map(resolve, scanned.orphans.values()))),
        tuple(scanned.missing),
        tuple(scanned.changed),
        tuple(_claims(repair, scanned)),
    )


def _claims(repair: Repair, scanned: stage.Scanned) -> Iterator[ScannedClaim]:
    """The claims in flight. A job that has just ended is gone, but its claim is not in flight now."""
    claims = [_scanned(repair, claim) for claim in scanned.state.in_flight]
    if all(claim.state is not None for claim in claims):
        yield from claims
        return
    now = read_state(repair.store, repair.table, repair.definition.table_id)
    still_in_flight = {pending.version for pending in now.in_flight}
    yield from (claim for claim in claims if claim.version in still_in_flight)


def _scanned(repair: Repair, pending: ClaimInFlight) -> ScannedClaim:
    store, table, claim = repair.store, repair.table, pending.claim
    current = job_of(store, table, claim)
    commands = commands_to_end(store, table, pending, current)
    return ScannedClaim(
        pending.version,
        claim.job_id,
        claim.job_attempt,
        state=None if current is None else current.phase.value,
        is_committed=pending.committed is not None,
        commands=tuple(command for command in commands if command is not None),
    )
