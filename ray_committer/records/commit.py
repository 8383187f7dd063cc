"""The commit of a job: a record of its task attempts, then one transaction that admits their rows.

The record decides. From then on the command line can finish the commit, because the ledger says which
attempts count. Before it, only the driver knows that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ray_committer.errors import (
    CommitRecordExistsError,
    CommitStateUnknownError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    IncompleteJobError,
    mark,
)
from ray_committer.records import ledger
from ray_committer.records.admit import admit
from ray_committer.records.columns import columns_of, merged
from ray_committer.records.connect import Connect, connect
from ray_committer.records.dialect import Column
from ray_committer.records.job import RecordJob, require_job, was_aborted
from ray_committer.records.ledger import RecordedAttempt, State
from ray_committer.records.report import RecordOutcome, RecordReport
from ray_committer.records.session import Session, Sessions, dialect_of, sessions
from ray_committer.records.staging import drop_staging, list_staging
from ray_committer.records.table import Table
from ray_committer.records.task import RecordAttempt

_log = logging.getLogger(__name__)


def commit_job(
    job: RecordJob, results: Sequence[RecordAttempt | None], *, connect: Connect = connect
) -> RecordReport:
    """Commit exactly the attempts that `results` has, one per task. `CommitStateUnknownError` if the
    database did not answer: ``ray-committer commit`` finishes the job."""
    attempts = [result for result in results if result is not None]
    if len(attempts) < len(results):
        raise IncompleteJobError(
            f"{mark(job.where)}: {len(results) - len(attempts)} of {len(results)} write tasks did not "
            "return their result, so nothing was committed",
            "run the write again",
        )
    # What Spark or Ray hands back decides, so it is checked before anything is recorded.
    _check_names(job, [attempt.table for attempt in attempts if attempt.table])
    columns = _columns(job, attempts)
    recorded = [_recorded(attempt, columns) for attempt in attempts if attempt.table]
    finish = job.table.command("commit", job.write_id)
    with sessions(job.table.database, connect) as opened:
        try:
            opened.run(lambda session: _record(session, job, recorded, columns))
        except DatabaseUnavailableError as e:
            raise CommitStateUnknownError(
                e.what, f"everything was kept: if `status` shows the job as recorded, run `{finish}`"
            ) from e
        return finish_job(opened, job.table, job.write_id)


def finish_job(sessions: Sessions, table: Table, write_id: int) -> RecordReport:
    """Commit a recorded job, or find that it is committed, and drop its staging tables."""
    database = sessions.database
    finish = table.command("commit", write_id)
    try:
        outcome, job = sessions.run(lambda session: admit(session, table, write_id))
    except DatabaseUnavailableError as e:
        raise CommitStateUnknownError(e.what, f"everything was kept: run `{finish}` to finish") from e
    except DatabaseRefusedError as e:
        undo = table.command("abort", write_id, "--undo")
        raise DatabaseRefusedError(
            e.what, f"no row of the job is visible: fix that and run `{finish}`, or give it up: `{undo}`"
        ) from e
    is_ignored = outcome is RecordOutcome.IGNORED
    state = State.ABORTED if is_ignored else State.COMMITTED
    # After the commit, and not in its transaction: a DROP waits for every reader of the staging table.
    _, notices = drop_all_staging(sessions, table, write_id, state)
    report = RecordReport(
        destination=database.shown,
        table=table.name,
        job_id=job.job_id,
        write_id=write_id,
        outcome=outcome,
        rows=0 if is_ignored else job.rows or 0,
        attempts=0 if is_ignored else job.attempt_count or 0,
        notices=notices,
    )
    _log.info("%s: write id %d %s, %d rows", table.where, write_id, outcome, report.rows)
    return report


def drop_all_staging(
    sessions: Sessions, table: Table, write_id: int, state: State
) -> tuple[int, list[str]]:
    """Drop the staging tables of a job that has ended; return how many, and notices of what failed."""
    names: list[str] = []

    def work(session: Session) -> list[str]:
        names.extend(list_staging(session, table, write_id))
        return drop_staging(session, table, names)

    try:
        # Once: rows are visible already, and whoever waits for the report should not wait for a clean-
        # up.
        failures = sessions.once(work)
    except (DatabaseUnavailableError, DatabaseRefusedError) as e:
        failures = [e.what]
    verb = "commit" if state is State.COMMITTED else "abort"
    repeat = table.command(verb, write_id)
    notices = [f"a staging table is left: {text}; drop it with `{repeat}`" for text in failures]
    return max(len(names) - len(failures), 0), notices


def _check_names(job: RecordJob, names: Sequence[str]) -> None:
    """Refuse an attempt that would count twice, or is of another job."""
    strangers = [name for name in names if not name.startswith(job.table.staging_prefix(job.write_id))]
    if strangers or len(set(names)) < len(names):
        what = f"{strangers[0]} is of another job" if strangers else "a task attempt is named twice"
        raise IncompleteJobError(
            f"{mark(job.where)}: {what}, so nothing was committed", "run the write again"
        )


def _columns(job: RecordJob, attempts: Sequence[RecordAttempt]) -> list[Column]:
    if job.schema is not None:
        return columns_of(job.schema, dialect_of(job.table.database), job.where)
    return merged([attempt.columns for attempt in attempts], job.where)


def _recorded(attempt: RecordAttempt, columns: Sequence[Column]) -> RecordedAttempt:
    names = [column.name for column in attempt.columns if column.type]
    has_all = names == [column.name for column in columns]
    return RecordedAttempt(attempt.table, attempt.rows, None if has_all else names)


def _record(
    session: Session, job: RecordJob, attempts: list[RecordedAttempt], columns: list[Column]
) -> None:
    """Put the record into the ledger, once; it is harmless to repeat this with the same attempts."""
    with session.transaction():
        ledger_job = require_job(session, job.table, job.write_id)
        if ledger_job.state is State.OPEN:
            ledger.record(session, job.table, job.write_id, attempts=attempts, columns=columns)
        elif ledger_job.state is State.ABORTED:
            raise was_aborted(job.table, job.write_id)
        elif ledger_job.attempts != attempts:
            raise CommitRecordExistsError(
                f"{mark(job.where)}: write id {job.write_id} is {ledger_job.state.value} with other "
                "task attempts",
                "nothing was changed: look at the table before you run the application again",
            )
