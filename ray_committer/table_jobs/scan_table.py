"""Compare the directory of a table with its log, and repair what can be repaired without a risk.

The log is read, then the directory is listed, then the entries since are read. Both reads are needed:

- A job claims its files before it moves one. So each file of a job that the listing shows is named by a
  claim that the second read finds, and is not foreign.
- A file can be missing only if the log named it before the listing. What a job has added or removed
  during the listing is left out: the second read shows it.

Only the files of the log are held, and those that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from ray_committer.errors import CommitConflictError, mark, some_of
from ray_committer.job_files.commands import resolve_command
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.limits.waiting import Waiting
from ray_committer.options import CommitOptions
from ray_committer.protocol.claims import fold_partitions
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import (
    LogEntry,
    TableAbort,
    TableClaim,
    TableCommit,
    WriteMode,
)
from ray_committer.protocol.table_state import ClaimInFlight, TableState, follow
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.stores.registry import shown_url
from ray_committer.table_jobs.decide_claim import Repair, give_up
from ray_committer.table_jobs.remove_orphans import IMPORT, commit_claim, end_interrupted
from ray_committer.table_jobs.resolve_claim import unknown_if_it_fails
from ray_committer.table_jobs.table_files import as_listed, compare, find_listed, list_table
from ray_committer.tables.checkpoint import read_files, read_state
from ray_committer.tables.claim import claim_partitions
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.log import read_entries, read_entry
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
    scan, foreign = _compare(repair)
    if import_foreign and foreign:
        _import(repair, foreign)
        scan = replace(scan, foreign=(), imported=len(foreign))
    return scan


def _compare(repair: Repair) -> tuple[TableScan, list[ListedFile]]:
    """What differs, and the foreign files themselves; changes nothing. Errors as `list_table`."""
    store, table = repair.store, repair.table
    before, files = read_files(store, table, repair.definition.table_id)
    compared, changed, unnamed = sum(map(len, files.values())), dict[str, str](), dict[str, FileStatus]()
    for path, status in list_table(store, table):
        named = files.get(partition_of(path), {}).pop(path, None)
        if named is None and not is_hidden(path):
            unnamed[path] = status
        elif named is not None and (finding := compare(named, status)).proof is None:
            changed[path] = str(finding)
    entries = read_entries(store, table, before.version)
    # Read after the listing: whatever a job did during the listing is in an entry by now, or its claim
    # is still in flight.
    busy = set(_busy(repair, before, entries))
    unnamed = {path: status for path, status in sorted(unnamed.items()) if path not in busy}
    orphans = dict(sorted(_orphans(repair, before.version, unnamed))) if unnamed else {}
    foreign = [as_listed(path, status) for path, status in unnamed.items() if path not in orphans]
    state = follow(before, entries)[0]
    resolve = partial(resolve_command, store, table.destination)
    scan = TableScan(
        shown_url(store.spec, table.destination),
        state.version,
        compared,
        foreign=tuple(file.path for file in foreign),
        orphans=tuple(orphans),
        orphan_commands=tuple(dict.fromkeys(map(resolve, orphans.values()))),
        missing=tuple(sorted({path for named in files.values() for path in named} - busy)),
        changed=tuple(text for path, text in sorted(changed.items()) if path not in busy),
        claims=tuple(_claims(repair, state.in_flight)),
    )
    return scan, foreign


def _import(repair: Repair, files: Sequence[ListedFile]) -> None:
    """Put files that no entry names into the log. `CommitConflictError` if another job is at work where
    they are, or if one of them has changed."""
    store, table, definition = repair.store, repair.table, repair.definition
    job_id = IMPORT + new_nonce()
    claim = TableClaim(
        job_id=job_id,
        job_attempt=0,
        nonce=new_nonce(),
        mode=WriteMode.CREATE,
        is_import=True,
        partitions=fold_partitions(partition_of(file.path) for file in files),
        files=save_file_set(store, table, files, job_id=job_id, job_attempt=0),
        at_milliseconds=repair.now_milliseconds,
    )
    pending = claim_partitions(store, table, definition, claim, repair.waiting)
    _, known = read_files(store, table, definition.table_id)  # no other job works there now
    wrong = [str(finding) for finding in find_listed(store, table, files) if finding.proof is None]
    # Asked again under the claim: the files were compared without one, and another job may have removed
    # or named them since.
    wrong += [
        f"{file.path}: is in the log"
        for file in files
        if file.path in known.get(partition_of(file.path), {})
    ]
    if wrong:
        give_up(repair, pending, "a file has changed")
        raise CommitConflictError(
            f"{mark(table.destination)}: files changed while they were put into the log: "
            f"{some_of(wrong)}",
            "no file was put into the log: run the same command again",
        )
    commit_claim(repair, repair.entry(TableCommit, pending))


def _busy(repair: Repair, before: TableState, entries: Sequence[tuple[int, LogEntry]]) -> Iterator[str]:
    """The paths that a job has changed since the state `before`, or may still change."""
    claims = {pending.version: pending.claim for pending in before.in_flight}
    commits = [
        (pending.claim, read_entry(repair.store, repair.table, pending.committed))
        for pending in before.in_flight
        if pending.committed
    ]
    for version, entry in entries:
        if isinstance(entry, TableClaim):
            claims[version] = entry
        elif entry.claim in claims:
            commits.append((claims[entry.claim], entry))
    sets = [(claim, claim.files) for claim in claims.values()]
    sets += [(claim, entry.removed) for claim, entry in commits if isinstance(entry, TableCommit)]
    for claim, file_set in sets:
        yield from (file.path for file in repair.files(claim, file_set))


def _orphans(
    repair: Repair, until: int, unnamed: Mapping[str, FileStatus]
) -> Iterator[tuple[str, TableClaim]]:
    """The paths of files that belong, with proof, to a claim that was given up, and that claim."""
    claims: dict[int, TableClaim] = {}
    for version, entry in read_entries(repair.store, repair.table, 0, until):
        if isinstance(entry, TableClaim):
            claims[version] = entry
            continue
        claim = claims.pop(entry.claim, None)
        if isinstance(entry, TableAbort) and claim is not None and not claim.is_import:
            for file in repair.files(claim, claim.files):
                if compare(file, unnamed.get(file.path)).is_proved:
                    yield file.path, claim


def _claims(repair: Repair, in_flight: Sequence[ClaimInFlight]) -> Iterator[ScannedClaim]:
    """The claims in flight. A job that has just ended is gone, but its claim is not in flight now."""
    claims = [_scanned(repair, pending) for pending in in_flight]
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
