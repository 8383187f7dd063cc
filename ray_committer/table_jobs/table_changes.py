"""What the jobs of a table with a log have changed: since a version, all of them, or at one path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ray_committer.errors import JobNotFoundError, mark
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.options import CommitOptions
from ray_committer.protocol.claims import common_partitions
from ray_committer.protocol.file_list import FileSet, ListedFile, partition_of
from ray_committer.protocol.paths import ancestors
from ray_committer.protocol.table_entry import LogEntry, TableClaim
from ray_committer.protocol.table_paths import DIRECTORY, KEPT_SUFFIX, TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted, TableState, follow
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.table_jobs.table_files import files_of
from ray_committer.tables.changes import committed_since
from ray_committer.tables.log import read_definition, read_entries


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one job has changed at its commit, which is this `version` of the table.

    mode: "append", "create", "overwrite" or "replace".
    added, removed: the files, relative to the table. A later change can have removed what this one has
        added.
    """

    version: int
    job_id: str
    job_attempt: int
    mode: str
    added: Sequence[ListedFile]
    removed: Sequence[ListedFile]
    table_id: str
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedJob:
    """One job in the history of a table.

    version: of its commit. claim: the version of its claim.
    partitions: those that it has claimed; an empty one is the whole table.
    files, bytes: what it has added. removed_files, removed_bytes: the old files that it has removed.
    """

    version: int
    claim: int
    job_id: str
    job_attempt: int
    mode: str
    partitions: tuple[str, ...]
    files: int
    bytes: int
    removed_files: int
    removed_bytes: int
    at_milliseconds: int
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """The job that has added a file to a table.

    path: relative to the `table`. version: of the job's commit. removed: the version of the commit
        that has removed the file; None if it is part of the last version.
    """

    table: str
    path: str
    job_id: str
    job_attempt: int
    version: int
    claim: int
    mode: str
    removed: int | None
    run_id: str | None = None


def changes(
    dest: str,
    since: int = 0,
    *,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> Iterator[TableChange]:
    """Yield what each job has changed that was committed after version `since`, in order.

    A consumer that passes the version of the last change that it has seen gets each change once, and so
    each file once, whatever is committed at the same time. The log is read up to its end at the first
    change; a later call yields the rest.

    `JobNotFoundError` if `dest` is not a table with a log. `TableVersionGoneError` if it has no version
    `since`.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        table_id = definition_of(store, table).table_id
        for commit in committed_since(store, table, table_id, since):
            claim, read = commit.claim, partial(files_of, store, table, commit.claim)
            yield TableChange(
                commit.version,
                claim.job_id,
                claim.job_attempt,
                claim.mode.value,
                read(claim.files),
                read(commit.removed),
                table_id,
                claim.run_id,
            )


def history(
    dest: str, *, options: CommitOptions = CommitOptions(), storage_options: StorageOptions | None = None
) -> list[CommittedJob]:
    """All jobs that were committed to a table, in the order of their commits; one request per entry.

    `JobNotFoundError` if `dest` is not a table with a log.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        definition_of(store, table)
        entries = read_entries(store, table, by_threads=True)
        return [_committed(commit) for commit in follow(TableState(), entries)[1]]


def who_wrote(
    path: str, *, options: CommitOptions = CommitOptions(), storage_options: StorageOptions | None = None
) -> WrittenFile:
    """The job that has added a file to its table, also if the file was removed later.

    `path` is the path or URL of the file, or of an old file that a job has kept. It need not be there.
    If several jobs have written a file of that name, it is the last one, or for a kept file its own
    writer. `JobNotFoundError` if no committed job of a table has added it.
    """
    with open_here(path, options, storage_options) as (store, file):
        table = _table_of(store, file)
        name, kept_by = _name_in_log(table, file)
        entries = read_entries(store, table, by_threads=True)
        _, commits = follow(TableState(), entries)
        written, removed = _last_writer(store, table, commits, name, kept_by)
        if written is None:
            ended = {commit.claim_version for commit in commits}
            rest = [entry for entry in entries if entry[0] not in ended]
            raise _nobody(store, table, rest, name, file)
        claim = written.claim
        return WrittenFile(
            table.destination,
            name,
            claim.job_id,
            claim.job_attempt,
            written.version,
            written.claim_version,
            claim.mode.value,
            removed,
            claim.run_id,
        )


def _last_writer(
    store: StoreOperations,
    table: TablePlaces,
    commits: Sequence[ClaimCommitted],
    name: str,
    kept_by: int | None,
) -> tuple[ClaimCommitted | None, int | None]:
    """The last commit that has added a file, and the version of the one that has removed it then. With
    `kept_by`, the file is the one that the job of this claim has removed."""
    written: ClaimCommitted | None = None
    removed: int | None = None
    for commit in commits:
        if not common_partitions([partition_of(name)], commit.claim.partitions):
            continue
        if removed is None and _names(store, table, commit.claim, commit.removed, name):
            removed = commit.version
            if commit.claim_version == kept_by:
                return written, removed
        if _names(store, table, commit.claim, commit.claim.files, name):
            written, removed = commit, None
    return (written, removed) if kept_by is None else (None, None)


def _names(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, files: FileSet, name: str
) -> bool:
    return any(file.path == name for file in files_of(store, table, claim, files))


def _nobody(
    store: StoreOperations,
    table: TablePlaces,
    entries: Sequence[tuple[int, LogEntry]],
    name: str,
    path: str,
) -> JobNotFoundError:
    """The error for a file that no committed job has added; it names a job that was to add it."""
    for version, claim in reversed(entries):
        if isinstance(claim, TableClaim) and _names(store, table, claim, claim.files, name):
            return JobNotFoundError(
                f"{mark(path)}: is named only by job {claim.job_id} (version {version}), which was not "
                f"committed",
                f"look at that job with: ray-committer table log DEST --since {version - 1}",
            )
    return JobNotFoundError(
        f"{mark(path)}: no entry of the log of the table at {mark(table.destination)} names this file",
        "check the path; if the file is there, another program has written it",
    )


def _table_of(store: StoreOperations, path: str) -> TablePlaces:
    """The table that a file is in; `JobNotFoundError` if no directory above it is one."""
    above, in_log, _ = path.partition(f"/{DIRECTORY}/")
    for directory in (above or "/",) if in_log else (*ancestors(path, "/"), "/"):
        if read_definition(store, TablePlaces(directory)) is not None:
            return TablePlaces(directory)
    raise JobNotFoundError(
        f"{mark(path)}: is not a file of a job, and not in a table with a log, which names each file's "
        "writer",
        "the file was left as it is; run `ray-committer status DEST` to see the jobs",
    )


def _name_in_log(table: TablePlaces, path: str) -> tuple[str, int | None]:
    """A file as the log names it, and the claim whose job has kept it, if it is an old file."""
    kept = path.removeprefix(f"{table.directory}/removed/")
    claim, _, name = kept.removesuffix(KEPT_SUFFIX).partition("/")
    if kept != path and claim.isascii() and claim.isdigit() and name:
        return name, int(claim)
    return path[len(table.destination.rstrip("/")) + 1 :], None


def _committed(commit: ClaimCommitted) -> CommittedJob:
    claim = commit.claim
    return CommittedJob(
        commit.version,
        commit.claim_version,
        claim.job_id,
        claim.job_attempt,
        claim.mode.value,
        tuple(claim.partitions),
        claim.files.files,
        claim.files.bytes,
        commit.removed.files,
        commit.removed.bytes,
        commit.at_milliseconds,
        claim.run_id,
    )
