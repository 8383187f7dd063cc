"""How a job ends without its rows, and what is removed of jobs that have ended."""

from __future__ import annotations

import logging
from contextlib import suppress

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    DatabaseRefusedError,
    RayCommitterError,
    StagingChangedError,
    TableColumnsError,
)
from ray_committer.records import ledger
from ray_committer.records.commit import drop_all_staging
from ray_committer.records.connect import connect
from ray_committer.records.job import RecordJob, require_job
from ray_committer.records.ledger import LedgerJob, State
from ray_committer.records.report import EndedRecordJob
from ray_committer.records.session import Session, Sessions, sessions
from ray_committer.records.staging import count_staging
from ray_committer.records.table import Table

_REFUSALS = (DatabaseRefusedError, StagingChangedError, TableColumnsError)
_log = logging.getLogger(__name__)


def abort_job(sessions: Sessions, table: Table, write_id: int, *, undo: bool = False) -> EndedRecordJob:
    """Abort a job and drop its staging tables; harmless for a job that was aborted.
    `CommitRecordExistsError` if it is committed, or recorded and `undo` is false."""
    ended, job = sessions.run(lambda session: _abort(session, table, write_id, undo=undo))
    return _ended(sessions, table, job, ended=ended)


def abort_old_jobs(
    sessions: Sessions, table: Table, *, older_than_seconds: float
) -> list[EndedRecordJob]:
    """Abort jobs that have been open for so long, and drop the staging tables of all that have ended.

    A recorded job is kept: only a dead driver's job must be finished.
    """
    jobs, staged = sessions.run(
        lambda session: (ledger.list_jobs(session, table), count_staging(session, table))
    )
    ended_jobs = []
    for job in jobs:
        if job.state is State.OPEN and job.age_seconds >= older_than_seconds:
            with suppress(CommitRecordExistsError):  # its driver has recorded it meanwhile
                ended_jobs.append(abort_job(sessions, table, job.write_id))
        elif job.state in (State.COMMITTED, State.ABORTED) and job.write_id in staged:
            ended_jobs.append(_ended(sessions, table, job, ended=False))
    return ended_jobs


def abort_failed(job: RecordJob, error: BaseException) -> None:
    """Abort a job whose write failed.

    A recorded job is also given up if its rows were refused, which would happen again. After a lost
    answer it is kept. Users must see the write's own `error`: a failure of the abort is logged, and
    added to it as a note.
    """
    # The exact class: no error of another kind of conflict says that the rows themselves were refused.
    is_refused = isinstance(error, _REFUSALS) or type(error) is CommitConflictError
    try:
        with sessions(job.table.database, connect) as opened:
            abort_job(opened, job.table, job.write_id, undo=is_refused)
    except RayCommitterError as e:
        _log.warning("the job was not aborted: %s", e)
        error.add_note(f"The job was not aborted: {e}")


def _abort(session: Session, table: Table, write_id: int, *, undo: bool) -> tuple[bool, LedgerJob]:
    with session.transaction():
        job = require_job(session, table, write_id)
        named = f"{table.where}: write id {write_id}"
        if job.state is State.COMMITTED:
            raise CommitRecordExistsError(f"{named} is committed", "nothing was changed")
        if job.state is State.RECORDED and not undo:
            finish = table.command("commit", write_id)
            give_up = table.command("abort", write_id, "--undo")
            raise CommitRecordExistsError(
                f"{named} is recorded",
                f"nothing was changed: finish it: `{finish}`, or give it up: `{give_up}`",
            )
        if job.state is State.ABORTED:
            return False, job
        ledger.end(session, table, write_id, State.ABORTED)
    return True, job


def _ended(sessions: Sessions, table: Table, job: LedgerJob, *, ended: bool) -> EndedRecordJob:
    state = State.COMMITTED if job.state is State.COMMITTED else State.ABORTED
    dropped, notices = drop_all_staging(sessions, table, job.write_id, state)
    return EndedRecordJob(
        write_id=job.write_id,
        job_id=job.job_id,
        state=state,
        ended=ended,
        dropped=dropped,
        notices=notices,
    )
