"""Compare the directory of a table with its log: which files does only one of them have?

The log is read, then the directory is listed, then the entries since are read. Both reads are needed:

- A job claims its files before it moves one. So each file of a job that the listing shows is named by a
  claim that the second read finds, and is not foreign.
- A file can be missing only if the log named it before the listing. What a job has added or removed
  during the listing is left out: the second read shows it.

Only the files of the log are held, and those that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ray_committer.errors import CommitConflictError, mark, some_of
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
from ray_committer.protocol.table_state import TableState, follow
from ray_committer.stores.base import FileStatus
from ray_committer.table_jobs.decide_claim import Repair, give_up
from ray_committer.table_jobs.remove_orphans import IMPORT, commit_claim
from ray_committer.table_jobs.table_files import as_listed, compare, find_listed, list_table
from ray_committer.tables.checkpoint import read_files
from ray_committer.tables.claim import claim_partitions
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.log import read_entries, read_entry


@dataclass(slots=True)
class Scanned:
    """The differences between a table's directory and its log, of which `state` is the end.

    compared: the number of files of the log.
    foreign: files that no entry names; orphans: files that only a claim names that was given up, and
        that claim.
    missing, changed: files of the log that are not there, or are others.
    """

    state: TableState
    compared: int
    foreign: list[ListedFile] = field(default_factory=list)
    orphans: dict[str, TableClaim] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def scan_table(repair: Repair) -> Scanned:
    """Compare the directory of a table with its log; change nothing. Errors as `list_table`."""
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
    result = Scanned(follow(before, entries)[0], compared)
    result.missing = sorted({path for named in files.values() for path in named} - busy)
    result.changed = [text for path, text in sorted(changed.items()) if path not in busy]
    unnamed = {path: status for path, status in sorted(unnamed.items()) if path not in busy}
    if unnamed:
        result.orphans = dict(sorted(_orphans(repair, before.version, unnamed)))
    foreign = [item for item in unnamed.items() if item[0] not in result.orphans]
    result.foreign = [as_listed(path, status) for path, status in foreign]
    return result


def import_foreign(repair: Repair, files: Sequence[ListedFile]) -> None:
    """Put files that no entry names into the log.

    `CommitConflictError` if another job is at work where they are, or if one of them has changed.
    """
    store, table, definition = repair.store, repair.table, repair.definition
    job_id = IMPORT + new_nonce()
    claim = TableClaim(
        job_id=job_id,
        job_attempt=0,
        nonce=new_nonce(),
        mode=WriteMode.CREATE,
        is_import=True,
        partitions=fold_partitions(partition_of(file.p) for file in files),
        files=save_file_set(store, table, files, job_id=job_id, job_attempt=0),
        at_milliseconds=repair.now_milliseconds,
    )
    pending = claim_partitions(store, table, definition, claim, repair.waiting)
    _, known = read_files(store, table, definition.table_id)  # no other job works there now
    wrong = [str(finding) for finding in find_listed(store, table, files) if finding.proof is None]
    # Asked again under the claim: the files were compared without one, and another job may have removed
    # or named them since.
    wrong += [
        f"{file.p}: is in the log" for file in files if file.p in known.get(partition_of(file.p), {})
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
        yield from (file.p for file in repair.files(claim, file_set))


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
                if compare(file, unnamed.get(file.p)).is_proved:
                    yield file.p, claim
