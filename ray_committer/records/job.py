"""One job whose rows go into a table of a database: how it is set up, and how it is named to others."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from ray_committer.errors import CommitAbortedError, CommitConflictError, JobNotFoundError, SettingsError
from ray_committer.records import ledger
from ray_committer.records.arrow import pa
from ray_committer.records.columns import check_columns, columns_of
from ray_committer.records.connect import Connect, connect
from ray_committer.records.database import parse_database
from ray_committer.records.ledger import WriteMode
from ray_committer.records.session import Session, dialect_of, sessions
from ray_committer.records.table import Table, find_table

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordJob:
    """A job as it is sent to its tasks, which convert their rows to `schema`, if that is known."""

    table: Table
    job_id: str
    write_id: int
    schema: pa.Schema | None = None

    @property
    def where(self) -> str:
        """How its table is named in a message."""
        return self.table.where


def write_mode(mode: str) -> WriteMode:
    """Return the mode with that name; ``SettingsError`` lists the modes."""
    if mode not in list(WriteMode):
        raise SettingsError(f"mode {mode!r}: is not one of {', '.join(WriteMode)}", "choose one of them")
    return WriteMode(mode)


def start_job(
    url: str,
    table: str,
    *,
    mode: str = "append",
    schema: pa.Schema | None = None,
    connect: Connect = connect,
) -> RecordJob | None:
    """Check what can be checked, then open a job with a new write id, before its tasks run. None if
    there is nothing to do, because the mode is ``ignore`` and the table has rows."""
    found_mode, database = write_mode(mode), parse_database(url)
    job_id = str(uuid.uuid4())  # the same one when the work is done again

    def work(session: Session) -> RecordJob | None:
        return _start(session, find_table(session, table), job_id, mode=found_mode, schema=schema)

    dialect_of(database).prepare(database)
    with sessions(database, connect) as opened:
        job = opened.run(work)
    if job is not None:
        _log.info("%s: job %s has write id %d", job.where, job.job_id, job.write_id)
    return job


def _start(
    session: Session, table: Table, job_id: str, *, mode: WriteMode, schema: pa.Schema | None
) -> RecordJob | None:
    columns = None if schema is None else columns_of(schema, session.dialect, table.where)
    ledger.make_ledger(session, table)
    with session.transaction():
        # Until the job is in the ledger: write ids have no gaps or doubles, and the look for rows is
        # still true then.
        session.dialect.lock_name(session, table.quoted)
        existing = session.dialect.columns(session, table.schema, table.name)
        if existing is not None and columns is not None:
            check_columns(columns, existing, session.dialect, table.where)
        if (known := ledger.find_job(session, table, job_id)) is not None:  # its answer was lost
            return RecordJob(table, job_id, known.write_id, schema)
        if mode in NEEDS_EMPTY and existing is not None and has_rows(session, table):
            if mode is WriteMode.IGNORE:
                return None
            raise CommitConflictError(
                f"{table.where}: has rows", "nothing was changed: choose another mode or table"
            )
        _warn_of_others(session, table)
        write_id = ledger.add_job(session, table, job_id, mode=mode, columns=columns)
    return RecordJob(table, job_id, write_id, schema)


NEEDS_EMPTY = (WriteMode.ERROR, WriteMode.IGNORE)


def has_rows(session: Session, table: Table) -> bool:
    """Return whether a table has a row."""
    return bool(session.query(f"SELECT 1 FROM {table.quoted} LIMIT 1"))  # noqa: S608 - a quoted name


def require_job(
    session: Session, table: Table, write_id: int, *, is_shared: bool = False
) -> ledger.LedgerJob:
    """Return and lock a job; `JobNotFoundError` if the ledger does not have it any more."""
    ledger_job = ledger.lock_job(session, table, write_id, is_shared=is_shared)
    if ledger_job is None:
        raise JobNotFoundError(
            f"{table.where}: has no job with write id {write_id}",
            f"run `{table.command('status')}` to list the jobs",
        )
    return ledger_job


def was_aborted(table: Table, write_id: int) -> CommitAbortedError:
    """The error for a job that another process has aborted."""
    return CommitAbortedError(
        f"{table.where}: write id {write_id} was aborted",
        "nothing was changed: run the application again if its rows are needed",
    )


def _warn_of_others(session: Session, table: Table) -> None:
    """An earlier job whose driver has died can still be committed: a new run of it doubles rows."""
    for recorded in ledger.list_recorded(session, table):
        _log.warning(
            "%s: write id %d is recorded and not committed; if its driver has died: %s",
            table.where,
            recorded.write_id,
            table.command("commit", recorded.write_id),
        )
