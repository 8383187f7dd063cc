"""Tables with a log: make one, show its log, and export it as a Delta table."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ray_committer.errors import SettingsError
from ray_committer.interop.exports import run
from ray_committer.interop.exports.result import Exported
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.options import CommitOptions
from ray_committer.places.choose import output_of
from ray_committer.protocol.file_list import NO_FILES
from ray_committer.protocol.table_entry import (
    Isolation,
    LogEntry,
    PartitionColumn,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    TableDone,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.table_jobs.make_table import make_table
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.tables.log import find_head, read_entries, version_gone
from ray_committer.tables.put import new_table_id

_KINDS = {TableClaim: "claim", TableCommit: "commit", TableDone: "done", TableAbort: "abort"}

TYPES = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
)
"""The types of partition columns without arguments, in Spark's words;
``decimal(10,2)`` and ``varchar(5)`` are also known."""
_SYNONYMS = ("byte", "short", "integer", "long", "real", "timestamp_ntz")
_WITH_ARGUMENTS = re.compile(r"decimal\((\d{1,2})(,\d{1,2})?\)|(var)?char\(\d+\)", re.ASCII)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """One entry of a table's log.

    kind: "claim", "commit", "done" or "abort".
    claim: the version of the job's claim; for a claim, its own version.
    mode, partitions: what a claim says that the job does, and where; an empty partition is the table.
    files, bytes: the new files of a claim, or the old files that a commit removes.
    kept: whether a commit has moved its old files to ``_ray_committer/removed``, and not deleted them.
    run_id: what the job of a claim does once. undoes: the version with that run id that it takes back.
    """

    version: int
    kind: str
    job_id: str
    job_attempt: int
    claim: int
    at_milliseconds: int
    mode: str | None = None
    partitions: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    kept: bool = False
    run_id: str | None = None
    undoes: int | None = None


def init_table(
    dest: str,
    *,
    isolation: str = Isolation.SERIALIZABLE,
    keep_replaced: bool = False,
    partition_types: Mapping[str, str] | None = None,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> LoggedEntry:
    """Make `dest` a table with a log that names the files that are there; return the claim for them.

    It need not exist. Every later commit to `dest` with this package uses the log. `isolation` is
    "serializable", "snapshot" or "none". With `keep_replaced`, jobs keep the old files that they
    replace, unless their options say otherwise; that is refused on S3. `partition_types` are the types
    of partition columns in Spark's words, such as ``{"day": "date"}``, for readers and Delta.

    `CommitConflictError` if it is a table already, or while a job that was set up before is at work;
    then the same call continues.
    """
    level, columns = _level(isolation), columns_of(partition_types or {})
    with open_here(dest, options, storage_options) as (store, destination):
        if keep_replaced:
            output_of(store).refuse_to_keep(destination)
        now = time.time_ns() // 1_000_000
        definition = TableDefinition(
            table_id=new_table_id(),
            isolation=level,
            keep_replaced=keep_replaced,
            partition_columns=columns,
            created_milliseconds=now,
        )
        table = TablePlaces(destination)
        return _logged(*make_table(store, table, definition, now))


def table_log(
    dest: str,
    *,
    since: int = 0,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> list[LoggedEntry]:
    """The entries of a table's log after the version `since`; `JobNotFoundError` if `dest` has none.

    `TableVersionGoneError` if the log has no version `since`.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        table = TablePlaces(destination)
        definition_of(store, table)
        head = find_head(store, table)
        if since > head:
            raise version_gone(table, since, head)
        entries = read_entries(store, table, since, head)
        return [_logged(version, entry) for version, entry in entries]


def export_delta(
    dest: str, *, options: CommitOptions = CommitOptions(), storage_options: StorageOptions | None = None
) -> Exported:
    """Export what is new in a table with a log to the Delta table in the same directory; idempotent.

    The first export names all files of the table, and each later one what jobs have changed since. No
    data file is written, and of data files only footers are read. Several processes can
    export a table at once: each version is exported once.

    `ExportError` if the table cannot be exported: the table itself does not change.
    `JobNotFoundError` if `dest` is not a table with a log.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        return run.export_table(store, TablePlaces(destination))


def _level(isolation: str) -> Isolation:
    try:
        return Isolation(isolation)
    except ValueError:
        known = ", ".join(Isolation)
        raise SettingsError(f"isolation={isolation}: must be one of {known}") from None


def _logged(version: int, entry: LogEntry) -> LoggedEntry:
    kind = _KINDS[type(entry)]
    logged = LoggedEntry(version, kind, entry.job_id, entry.job_attempt, version, entry.at_milliseconds)
    if isinstance(entry, TableClaim):
        named = entry.files
        logged = replace(logged, mode=entry.mode.value, partitions=tuple(entry.partitions))
        logged = replace(logged, run_id=entry.run_id, undoes=entry.undoes)
    else:
        named = entry.removed if isinstance(entry, TableCommit) else NO_FILES
        logged = replace(logged, claim=entry.claim, kept=isinstance(entry, TableCommit) and entry.kept)
    return replace(logged, files=named.files, bytes=named.bytes)


def columns_of(types: Mapping[str, str]) -> list[PartitionColumn]:
    """The partition columns with these types, in order; `SettingsError` if a type is not known."""
    return [PartitionColumn(name, _known(name, text)) for name, text in types.items()]


def _known(name: str, text: str) -> str:
    kind = text.lower().replace(" ", "")
    parametrised = _WITH_ARGUMENTS.fullmatch(kind)
    digits = int(parametrised[1]) if parametrised and parametrised[1] else 1
    if not name or not (parametrised or kind in (*TYPES, *_SYNONYMS)) or not 1 <= digits <= _MOST_DIGITS:
        raise SettingsError(
            f"partition column {name}={text}: is not a type of a partition column",
            f"nothing was done: use one of {', '.join(TYPES)}, decimal(10,2), varchar(10)",
        )
    return kind
