"""Which job a command is about, and the list of the jobs of a table."""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import AmbiguousJobError, IncompleteJobError, JobNotFoundError
from ray_committer.records import ledger
from ray_committer.records.database import Database
from ray_committer.records.end import count_staging
from ray_committer.records.job import command, where
from ray_committer.records.ledger import LedgerJob, State
from ray_committer.records.report import RecordJobSummary
from ray_committer.records.session import Session, Sessions
from ray_committer.records.table import Table, find_table


def open_table(sessions: Sessions, text: str) -> Table:
    """Return the table with a name; `JobNotFoundError` if its schema has no ledger."""

    def work(session: Session) -> Table:
        table = find_table(session, text)
        if not ledger.has_ledger(session, table):
            raise JobNotFoundError(
                f"{where(sessions.database, table)}: its schema has no ledger: no job has written there",
                "check the URL and the name of the table",
            )
        return table

    return sessions.run(work)


def job_to_commit(
    sessions: Sessions, table: Table, *, write_id: int | None = None, job_id: str | None = None
) -> int:
    """Return the write id of the named job, or of the one job that is recorded.

    If none is recorded or open, it is the last one that was committed.
    """
    database = sessions.database
    jobs = sessions.run(lambda session: ledger.list_jobs(session, table))
    if write_id is not None or job_id is not None:
        return _named(database, table, jobs, write_id=write_id, job_id=job_id).write_id
    found = [job for job in jobs if job.state is State.RECORDED]
    if not found and (left := [job for job in jobs if job.state is State.OPEN]):
        abort = command("abort", database, table, left[0].write_id)
        raise IncompleteJobError(
            f"{where(database, table)}: no job is recorded, and write id {left[0].write_id} is open",
            f"wait for its driver; if that has died, run `{abort}` and the application again",
        )
    found = found or [job for job in jobs if job.state is State.COMMITTED][-1:]
    return _one(database, table, found)


def job_to_abort(
    sessions: Sessions, table: Table, *, write_id: int | None = None, job_id: str | None = None
) -> int | None:
    """Return the write id of the named job, or of the one job that has not ended; None if all have."""
    database = sessions.database
    jobs = sessions.run(lambda session: ledger.list_jobs(session, table))
    if write_id is not None or job_id is not None:
        return _named(database, table, jobs, write_id=write_id, job_id=job_id).write_id
    found = [job for job in jobs if job.state in (State.OPEN, State.RECORDED)]
    return _one(database, table, found) if found else None


def list_jobs(sessions: Sessions, table: Table) -> list[RecordJobSummary]:
    """Return the jobs of a table that have not ended or have staging tables, and the last committed."""

    def work(session: Session) -> tuple[list[LedgerJob], dict[int, int]]:
        return ledger.list_jobs(session, table), count_staging(session, table)

    jobs, staged = sessions.run(work)
    last = max((job.write_id for job in jobs if job.state is State.COMMITTED), default=None)
    shown = [
        job
        for job in jobs
        if job.state in (State.OPEN, State.RECORDED) or job.write_id == last or staged.get(job.write_id)
    ]
    return [_summary(sessions.database, table, job, staged.get(job.write_id, 0)) for job in shown]


def _summary(database: Database, table: Table, job: LedgerJob, staging_tables: int) -> RecordJobSummary:
    verb = {State.OPEN: "abort", State.RECORDED: "commit"}.get(job.state)
    is_recorded = job.state is State.RECORDED
    return RecordJobSummary(
        table=table.name,
        write_id=job.write_id,
        job_id=job.job_id,
        mode=job.mode,
        state=job.state,
        age_seconds=job.age_seconds,
        rows=job.rows,
        attempts=job.attempt_count,
        staging_tables=staging_tables,
        command=command(verb, database, table, job.write_id) if verb else None,
        undo_command=command("abort", database, table, job.write_id, "--undo") if is_recorded else None,
    )


def _named(
    database: Database,
    table: Table,
    jobs: Sequence[LedgerJob],
    *,
    write_id: int | None,
    job_id: str | None,
) -> LedgerJob:
    found = [
        job
        for job in jobs
        if (write_id is None or job.write_id == write_id) and (job_id is None or job.job_id == job_id)
    ]
    if not found:
        named = f"write id {write_id}" if write_id is not None else f"id {job_id}"
        raise JobNotFoundError(
            f"{where(database, table)}: has no job with {named}",
            f"run `{command('status', database, table)}` to list the jobs",
        )
    return found[0]


def _one(database: Database, table: Table, found: Sequence[LedgerJob]) -> int:
    if not found:
        raise JobNotFoundError(
            f"{where(database, table)}: has no job to commit", "check the name of the table"
        )
    if len(found) > 1:
        ids = ", ".join(str(job.write_id) for job in found)
        raise AmbiguousJobError(
            f"{where(database, table)}: write ids {ids} have not ended", "name one with --write-id"
        )
    return found[0].write_id
