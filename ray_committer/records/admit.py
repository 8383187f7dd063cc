"""The transaction that admits the rows of a recorded job: all of them, or none, and once."""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    IncompleteJobError,
    StagingChangedError,
    TableColumnsError,
)
from ray_committer.records import ledger
from ray_committer.records.columns import check_columns
from ray_committer.records.dialect import Column, TableColumn
from ray_committer.records.job import has_rows, require_job, was_aborted
from ray_committer.records.ledger import LedgerJob, RecordedAttempt, State, WriteMode
from ray_committer.records.report import RecordOutcome
from ray_committer.records.session import Session
from ray_committer.records.staging import definitions, list_staging
from ray_committer.records.table import Table, quote


def admit(session: Session, table: Table, write_id: int) -> tuple[RecordOutcome, LedgerJob]:
    """Put the rows of a recorded job into its table, or find that they are there. Two processes that do
    this wait for each other at the row of the job in the ledger."""
    with session.transaction():
        job = require_job(session, table, write_id)
        # The row is locked from here on: whoever comes second waits above, and then sees what the first
        # has done.
        if job.state is State.COMMITTED:
            return RecordOutcome.ALREADY_COMMITTED, job
        if job.state is not State.RECORDED:
            raise _not_recorded(table, job)
        columns = job.columns or []
        # All staging tables before the first row: an error names a lost table and not a failed INSERT.
        _check_staging(session, table, job)
        if not _prepare_table(session, table, job, columns):
            ledger.end(session, table, write_id, State.ABORTED)
            return RecordOutcome.IGNORED, job
        for attempt in job.attempts or ():
            _insert(session, table, attempt, columns)
        # In the same transaction as the rows: they are visible if and only if the ledger says so.
        ledger.end(session, table, write_id, State.COMMITTED)
    return RecordOutcome.COMMITTED, job


def _prepare_table(session: Session, table: Table, job: LedgerJob, columns: Sequence[Column]) -> bool:
    """Make the table, or do what the mode says about the rows that are there; false: write nothing."""
    dialect, named = session.dialect, table.where
    existing = dialect.columns(session, table.schema, table.name)
    if existing is None and columns:
        dialect.lock_name(session, f"{table.quoted} is made")  # two jobs can come here at once
        existing = dialect.columns(session, table.schema, table.name)
        if existing is None:
            session.execute(f"CREATE TABLE {table.quoted} ({definitions(columns)})")
    if existing is None:
        return True
    dialect.lock_table(session, table.quoted, is_shared=job.mode is WriteMode.APPEND)
    existing = dialect.columns(session, table.schema, table.name) or []  # nobody changes them now
    if columns:  # what was checked before the tasks ran
        check_columns(columns, existing, dialect, named)
        _check_values(session, table, job, existing)
    return job.mode is WriteMode.APPEND or _may_write(session, table, job)


def _check_values(
    session: Session, table: Table, job: LedgerJob, existing: Sequence[TableColumn]
) -> None:
    """Refuse values that the type of a column would change without an error."""
    types = {column.name: column.type for column in existing}
    for attempt in job.attempts or ():
        for name in attempt.columns or [column.name for column in job.columns or ()]:
            condition = session.dialect.changed_values(quote(name), types.get(name, ""))
            at = table.beside(attempt.table)
            if condition and session.query(f"SELECT 1 FROM {at} WHERE {condition} LIMIT 1"):  # noqa: S608
                raise TableColumnsError(
                    f"{table.where}: column {name!r} is {types[name]}, for which a value is too long"
                )


def _may_write(session: Session, table: Table, job: LedgerJob) -> bool:
    """Look at the rows that are there; other writers are kept out, so no row can come later."""
    if job.mode is WriteMode.OVERWRITE:
        session.execute(f"DELETE FROM {table.quoted}")  # noqa: S608 - a quoted name
        if has_rows(session, table):
            raise CommitConflictError(
                f"{table.where}: rows are left after they were deleted",
                "no row of the job is visible: find out what keeps them, such as a trigger",
            )
    elif has_rows(session, table):
        # Rows that came while the job ran. The table is locked, so they are there to stay.
        if job.mode is WriteMode.IGNORE:
            return False
        undo = table.command("abort", job.write_id, "--undo")
        raise CommitConflictError(
            f"{table.where}: has rows that came while the job ran",
            f"no row of the job is visible: remove them and run the same command, or give up: `{undo}`",
        )
    return True


def _check_staging(session: Session, table: Table, job: LedgerJob) -> None:
    existing = set(list_staging(session, table, job.write_id))
    gone = [attempt.table for attempt in job.attempts or () if attempt.table not in existing]
    if gone:
        undo = table.command("abort", job.write_id, "--undo")
        raise StagingChangedError(
            f"{table.where}: staging table {gone[0]} is gone",
            f"no row of the job is visible: give it up with `{undo}`, and run the application again",
        )


def _insert(session: Session, table: Table, attempt: RecordedAttempt, columns: Sequence[Column]) -> None:
    """Insert the rows of one attempt; what its staging table does not have is null."""
    names = [column.name for column in columns]
    here = set(names if attempt.columns is None else attempt.columns)
    values = [quote(name) if name in here else "NULL" for name in names]
    inserted = session.dialect.insert(
        session,
        f"INSERT INTO {table.quoted} ({', '.join(map(quote, names))}) "  # noqa: S608 - quoted names
        f"SELECT {', '.join(values)} FROM {table.beside(attempt.table)}",
    )
    # A trigger, a rule or a policy can drop rows of an INSERT, without an error.
    if inserted != attempt.rows:
        what = f"{inserted} of {attempt.rows} rows of staging table {attempt.table} went into the table"
        raise StagingChangedError(
            f"{table.where}: {what}",
            "no row of the job is visible: find out what has changed them, such as a trigger",
        )


def _not_recorded(table: Table, job: LedgerJob) -> IncompleteJobError | CommitAbortedError:
    if job.state is State.ABORTED:
        return was_aborted(table, job.write_id)
    abort = table.command("abort", job.write_id)
    named = f"{table.where}: write id {job.write_id}"
    return IncompleteJobError(
        f"{named} is open: only its driver knows which task attempts count",
        f"wait for its driver; if that has died, run `{abort}` and the application again",
    )
