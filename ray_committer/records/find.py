"""Which job a command is about, and the list of the jobs of a table."""

from __future__ import annotations

from ray_committer.errors import AmbiguousJobError, IncompleteJobError, JobNotFoundError
from ray_committer.records import ledger
from ray_committer.records.ledger import LedgerJob, State
from ray_committer.records.report import RecordJobSummary
from ray_committer.records.session import Session, Sessions
from ray_committer.records.staging import count_staging
from ray_committer.records.table import Table, find_table


def open_table(sessions: Sessions, text: str) -> Table:
    """Return the table with a name; `JobNotFoundError` if its schema has no ledger."""

    def work(session: Session) -> Table:
        table = find_table(session, text)
        if not ledger.has_ledger(session, table):
            raise JobNotFoundError(
                f"{table.where}: its schema has no ledger: no job has written there",
                "check the URL and the name of the table",
            )
        return table

    return sessions.run(work)


def job_to_commit(sessions: Sessions, table: Table) -> int:
    """Return the write id of the recorded job; if none is recorded or open, the last committed one."""
    named = table.where
    jobs = sessions.run(lambda session: ledger.list_jobs(session, table))
    candidates = [job for job in jobs if job.state is State.RECORDED]
    if len(candidates) > 1:
        ids = ", ".join(str(job.write_id) for job in candidates)
        raise AmbiguousJobError(f"{named}: write ids {ids} are recorded", "name one after the table")
    if not candidates and (left := [job for job in jobs if job.state is State.OPEN]):
        abort = table.command("abort", left[0].write_id)
        raise IncompleteJobError(
            f"{named}: no job is recorded, and write id {left[0].write_id} is open",
            f"wait for its driver; if that has died, run `{abort}` and the application again",
        )
    candidates = candidates or [job for job in jobs if job.state is State.COMMITTED]
    if not candidates:
        raise JobNotFoundError(f"{named}: has no job to commit", "check the name of the table")
    return candidates[-1].write_id


def list_jobs(sessions: Sessions, table: Table) -> list[RecordJobSummary]:
    """Return the jobs of a table that have not ended or have staging tables, and the last committed."""
    jobs, staged = sessions.run(
        lambda session: (ledger.list_jobs(session, table), count_staging(session, table))
    )
    last = max((job.write_id for job in jobs if job.state is State.COMMITTED), default=None)
    shown = [
        job
        for job in jobs
        if job.state in (State.OPEN, State.RECORDED) or job.write_id == last or staged[job.write_id]
    ]
    return [_summary(table, job, staged[job.write_id]) for job in shown]


def _summary(table: Table, job: LedgerJob, staging_tables: int) -> RecordJobSummary:
    verb = "abort" if job.state in (State.OPEN, State.ABORTED) else "commit"
    has_command = staging_tables or job.state in (State.OPEN, State.RECORDED)
    is_recorded = job.state is State.RECORDED
    return RecordJobSummary(
        write_id=job.write_id,
        job_id=job.job_id,
        mode=job.mode,
        state=job.state,
        age_seconds=job.age_seconds,
        rows=job.rows,
        attempts=job.attempt_count,
        staging_tables=staging_tables,
        command=table.command(verb, job.write_id) if has_command else None,
        undo_command=table.command("abort", job.write_id, "--undo") if is_recorded else None,
    )
