"""The task's half of a job: one attempt writes its rows into a staging table of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from ray_committer.errors import TableColumnsError, TaskCommitError, mark
from ray_committer.protocol.prepared import prepare
from ray_committer.records.arrow import pa
from ray_committer.records.columns import check_columns, columns_of, convert, in_schema, merged
from ray_committer.records.connect import Connect, connect
from ray_committer.records.dialect import Column
from ray_committer.records.job import RecordJob, require_job
from ray_committer.records.ledger import State
from ray_committer.records.session import Session, open_session
from ray_committer.records.staging import add_staging_column, drop_staging, make_staging

_log = logging.getLogger(__name__)


class RecordAttempt(msgspec.Struct, frozen=True):
    """What a task attempt tells its driver: its staging table, and how many rows and which columns that
    has. An attempt without rows has no staging table: its name is empty."""

    table: str
    rows: int
    columns: list[Column]


prepare(RecordAttempt)


def write_attempt(
    job: RecordJob, tables: Iterable[pa.Table], *, connect: Connect = connect
) -> RecordAttempt:
    """Run one task attempt: each Arrow table becomes one transaction in its staging table.

    The process holds one Arrow table at a time. If the attempt fails, its staging table is dropped; if
    it is killed, the staging table is dropped when the job ends, or by a later abort.
    """
    with open_session(job.table.database, connect) as session:
        attempt = _Attempt(job, session)
        try:
            for rows in tables:
                attempt.write(rows)
            return attempt.result()
        except BaseException:
            attempt.give_up()
            raise


class _Attempt:
    def __init__(self, job: RecordJob, session: Session) -> None:
        self._job = job
        self._session = session
        self._name = job.table.new_staging(job.write_id)
        self._is_made = False
        self._columns: list[Column] = []
        self._rows = 0

    def write(self, rows: pa.Table) -> None:
        """Write one Arrow table; one without rows may also lack columns and types, and is left out."""
        if not rows.num_rows:
            return
        job, dialect = self._job, self._session.dialect
        if job.schema is not None:
            rows = in_schema(rows, job.schema, job.where)
        self._make_room(merged([self._columns, columns_of(rows.schema, dialect, job.where)], job.where))
        written = self._session.ingest(job.table.schema, self._name, convert(rows, dialect, job.where))
        # Counted here, where the attempt can still fail, and again when the rows are admitted.
        if written != rows.num_rows:
            raise TaskCommitError(
                f"{mark(job.where)}: {written} of {rows.num_rows} rows were written to a staging table"
            )
        self._rows += written

    def result(self) -> RecordAttempt:
        return RecordAttempt(self._name if self._is_made else "", self._rows, self._columns)

    def give_up(self) -> None:
        names = [self._name] if self._is_made else []
        for failure in drop_staging(self._session, self._job.table, names):
            _log.info("a staging table is left: %s", failure)

    def _make_room(self, columns: list[Column]) -> None:
        """Make the staging table, or add the columns that are new, or have their first value."""
        if columns == self._columns:
            return
        made = {column.name for column in self._columns if column.type and self._is_made}
        new = [column for column in columns if column.type and column.name not in made]
        self._check(columns)
        if self._is_made:
            for column in new:
                add_staging_column(self._session, self._job.table, self._name, column)
        else:
            self._make(new)
        # Only after the columns are there: a write that failed and is tried again finds the same
        # difference.
        self._columns = columns

    def _check(self, columns: list[Column]) -> None:
        session, table, where = self._session, self._job.table, self._job.where
        if not any(column.type for column in columns):
            raise TableColumnsError(f"{where}: no column has a type", "specify the schema of the rows")
        existing = session.dialect.columns(session, table.schema, table.name)
        if existing is not None:
            check_columns(columns, existing, session.dialect, where)

    def _make(self, columns: list[Column]) -> None:
        """Make the staging table, unless the job has ended: nobody would drop the table of such a job.
        The job cannot end before this transaction does."""
        job, session = self._job, self._session
        with session.transaction():
            state = require_job(session, job.table, job.write_id, is_shared=True).state
            if state is not State.OPEN:
                raise TaskCommitError(
                    f"{mark(job.where)}: write id {job.write_id} is {state.value}: this attempt is too "
                    "late",
                    "nothing was written: run the application again if its rows are needed",
                )
            make_staging(session, job.table, self._name, columns)
        self._is_made = True
