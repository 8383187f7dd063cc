"""How a job ends without its rows, and what is removed of jobs that have ended."""

from __future__ import annotations

from ray_committer.errors import CommitRecordExistsError
from ray_committer.records import ledger
from ray_committer.records.commit import drop_all_staging
from ray_committer.records.database import Database
from ray_committer.records.job import command, require_job, where
from ray_committer.records.ledger import LedgerJob, State
from ray_committer.records.report import EndedRecordJob
from ray_committer.records.session import Session, Sessions
from ray_committer.records.table import Table, write_id_of


def abort_job(sessions: Sessions, table: Table, write_id: int, *, undo: bool = False) -> EndedRecordJob:
    """Abort a job and drop its staging tables; harmless for a job that was aborted.

    `CommitRecordExistsError` if it is committed, or recorded and `undo` is false.
    """
    ended, job = sessions.run(lambda session: _abort(session, table, write_id, undo=undo))
    return _ended(sessions, table, job, ended=ended)


def vacuum_jobs(
    sessions: Sessions, table: Table, *, older_than_seconds: float, dry_run: bool = False
) -> list[EndedRecordJob]:
    """Abort jobs that have been open for so long, and drop the staging tables of all that have ended.

    A recorded job is kept: only that of a dead driver must be finished, by the command that is returned.
    """
    jobs, staged = sessions.run(lambda session: _survey(session, table))
    found = []
    for job in jobs:
        tables = staged.get(job.write_id, 0)
        is_dead = job.state is State.OPEN and job.age_seconds >= older_than_seconds
        if job.state is State.RECORDED:
            found.append(_kept(sessions.database, table, job))
        elif dry_run and (is_dead or (tables and job.state is not State.OPEN)):
            found.append(_row(table, job, ended=is_dead, dropped=tables))
        elif is_dead:
            try:
                found.append(abort_job(sessions, table, job.write_id))
            except CommitRecordExistsError:
                found.append(_kept(sessions.database, table, job))
        elif tables and job.state is not State.OPEN:
            found.append(_ended(sessions, table, job, ended=False))
    return found


def _abort(session: Session, table: Table, write_id: int, *, undo: bool) -> tuple[bool, LedgerJob]:
    with session.transaction():
        job = require_job(session, table, write_id)
        named = f"{where(session.database, table)}: write id {write_id}"
        if job.state is State.COMMITTED:
            raise CommitRecordExistsError(f"{named} is committed", "nothing was changed")
        if job.state is State.RECORDED and not undo:
            finish = command("commit", session.database, table, write_id)
            give_up = command("abort", session.database, table, write_id, "--undo")
            raise CommitRecordExistsError(
                f"{named} is recorded",
                f"nothing was changed: finish it: `{finish}`, or give it up: `{give_up}`",
            )
        if job.state is State.ABORTED:
            return False, job
        ledger.end(session, table, write_id, State.ABORTED)
    return True, job


def _ended(sessions: Sessions, table: Table, job: LedgerJob, *, ended: bool) -> EndedRecordJob:
    dropped, notices = drop_all_staging(sessions, table, job.write_id)
    return _row(table, job, ended=ended, dropped=dropped, notices=notices)


def _row(
    table: Table, job: LedgerJob, *, ended: bool, dropped: int, notices: list[str] | None = None
) -> EndedRecordJob:
    return EndedRecordJob(
        table=table.name,
        write_id=job.write_id,
        job_id=job.job_id,
        state=State.ABORTED if ended else job.state,
        ended=ended,
        dropped=dropped,
        notices=notices or [],
    )


def _kept(database: Database, table: Table, job: LedgerJob) -> EndedRecordJob:
    return EndedRecordJob(
        table=table.name,
        write_id=job.write_id,
        job_id=job.job_id,
        state=State.RECORDED,
        ended=False,
        dropped=0,
        reason="its commit has begun",
        command=command("commit", database, table, job.write_id),
    )


def _survey(session: Session, table: Table) -> tuple[list[LedgerJob], dict[int, int]]:
    if not ledger.has_ledger(session, table):
        return [], {}
    return ledger.list_jobs(session, table), count_staging(session, table)


def count_staging(session: Session, table: Table) -> dict[int, int]:
    """Return how many staging tables each write id has."""
    found: dict[int, int] = {}
    for name in session.dialect.tables(session, table.schema, table.all_staging):
        write_id = write_id_of(table, name)
        if write_id is not None:
            found[write_id] = found.get(write_id, 0) + 1
    return found
