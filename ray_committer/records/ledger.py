"""The ledger: a table beside the table that is written to, with a row per job, and its state.

A state changes in a transaction that has locked the row of the job, so of two processes that want to
change it, one waits for the other and then sees what it has done.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from ray_committer.protocol.prepared import prepare
from ray_committer.records.dialect import Column
from ray_committer.records.session import Session
from ray_committer.records.table import LEDGER, Table


class State(StrEnum):
    """Where a job is.

    OPEN: its tasks run. RECORDED: it is decided which task attempts are committed. COMMITTED: their
    rows are in the table. ABORTED: no row of the job will ever be there.
    """

    OPEN = "open"
    RECORDED = "recorded"
    COMMITTED = "committed"
    ABORTED = "aborted"


class WriteMode(StrEnum):
    """What a job does if the table has rows: adds to them, replaces them, fails, or writes nothing."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"


class RecordedAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task attempt whose rows are committed; `columns` if it does not have all columns of the job."""

    table: str
    rows: int
    columns: list[str] | None = None


prepare(RecordedAttempt)


class LedgerJob(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger. What is not known yet is None. `columns` and `attempts` are read only when
    the job is locked: of all jobs they can be much."""

    write_id: int
    job_id: str
    mode: WriteMode
    state: State
    columns: list[Column] | None
    attempts: list[RecordedAttempt] | None
    attempt_count: int | None
    rows: int | None
    age_seconds: float


def make_ledger(session: Session, table: Table) -> None:
    """Make the ledger if it is not there; two processes can do this at the same time."""
    if has_ledger(session, table):
        return
    kind = session.dialect.time_type
    with session.transaction():
        # `IF NOT EXISTS` alone fails in PostgreSQL if two sessions do it at the same moment.
        session.dialect.lock_name(session, table.ledger)
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {table.ledger} ("
            "table_name text NOT NULL, write_id bigint NOT NULL, job_id text NOT NULL UNIQUE, "
            "mode text NOT NULL, state text NOT NULL, columns text, attempts text, "
            "attempt_count bigint, row_count bigint, "
            f"opened_at {kind} NOT NULL, recorded_at {kind}, ended_at {kind}, "
            "PRIMARY KEY (table_name, write_id))"
        )


def has_ledger(session: Session, table: Table) -> bool:
    """Return whether the schema of a table has a ledger."""
    return session.dialect.columns(session, table.schema, LEDGER) is not None


def add_job(
    session: Session, table: Table, job_id: str, *, mode: WriteMode, columns: list[Column] | None
) -> int:
    """Add an open job, and return its write id: one more than the last of the table. Call this in a
    transaction that has locked the name of the table."""
    last_ids = session.query(
        f"SELECT coalesce(max(write_id), 0) FROM {table.ledger} WHERE table_name = $1",  # noqa: S608
        table.name,
    )
    write_id = int(last_ids[0][0]) + 1
    session.execute(
        f"INSERT INTO {table.ledger} "  # noqa: S608 - a quoted name
        "(table_name, write_id, job_id, mode, state, columns, opened_at) "
        f"VALUES ($1, $2, $3, $4, 'open', $5, {session.dialect.now})",
        *(table.name, write_id, job_id, mode.value, _text(columns)),
    )
    return write_id


def find_job(session: Session, table: Table, job_id: str) -> LedgerJob | None:
    """Return the job with this id; None if the table has no such job."""
    jobs = _jobs(session, table, "AND job_id = $2", job_id)
    return jobs[0] if jobs else None


def lock_job(
    session: Session, table: Table, write_id: int, *, is_shared: bool = False
) -> LedgerJob | None:
    """Return a job, whose state nobody else can change before this transaction ends.

    is_shared: others can have it in this way at the same time, as all tasks of a job do.
    """
    lock = session.dialect.for_share if is_shared else session.dialect.for_update
    jobs = _jobs(session, table, f"AND write_id = $2{lock}", write_id, fields="columns, attempts")
    return jobs[0] if jobs else None


def list_jobs(session: Session, table: Table) -> list[LedgerJob]:
    """Return the jobs of a table in the order of their write ids."""
    return _jobs(session, table, "ORDER BY write_id")


def list_recorded(session: Session, table: Table) -> list[LedgerJob]:
    """Return the jobs that are recorded."""
    return _jobs(session, table, "AND state = 'recorded' ORDER BY write_id")


def record(
    session: Session,
    table: Table,
    write_id: int,
    *,
    attempts: Sequence[RecordedAttempt],
    columns: Sequence[Column],
) -> None:
    """Decide which task attempts are committed; call this after `lock_job`."""
    session.execute(
        f"UPDATE {table.ledger} SET state = 'recorded', attempts = $1, columns = $2, "  # noqa: S608
        f"attempt_count = $3, row_count = $4, recorded_at = {session.dialect.now} "
        "WHERE table_name = $5 AND write_id = $6",
        *(_text(list(attempts)), _text(list(columns))),
        *(len(attempts), sum(attempt.rows for attempt in attempts), table.name, write_id),
    )


def end(session: Session, table: Table, write_id: int, state: State) -> None:
    """End a job; call this after `lock_job`."""
    session.execute(
        f"UPDATE {table.ledger} SET state = $1, ended_at = {session.dialect.now} "  # noqa: S608
        "WHERE table_name = $2 AND write_id = $3",
        *(state.value, table.name, write_id),
    )


def _jobs(
    session: Session, table: Table, condition: str, *values: object, fields: str = "NULL, NULL"
) -> list[LedgerJob]:
    # By the clock of the database, which all drivers share.
    age = session.dialect.age("coalesce(ended_at, recorded_at, opened_at)")
    rows_of_jobs = session.query(
        f"SELECT write_id, job_id, mode, state, {fields}, attempt_count, row_count, {age} "  # noqa: S608
        f"FROM {table.ledger} WHERE table_name = $1 {condition}",
        table.name,
        *values,
    )
    return [
        LedgerJob(
            write_id=int(write_id),
            job_id=job_id,
            mode=WriteMode(mode),
            state=State(state),
            columns=msgspec.json.decode(columns or "null", type=list[Column] | None),
            attempts=msgspec.json.decode(attempts or "null", type=list[RecordedAttempt] | None),
            attempt_count=count,
            rows=rows,
            age_seconds=max(float(seconds), 0.0),
        )
        for write_id, job_id, mode, state, columns, attempts, count, rows, seconds in rows_of_jobs
    ]


def _text(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
