"""One job whose tasks write into a database: what the drivers of all engines do around it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ray_committer.errors import (
    CommitConflictError,
    DatabaseRefusedError,
    RayCommitterError,
    StagingChangedError,
    TableColumnsError,
)
from ray_committer.records.connect import connect
from ray_committer.records.end import abort_job
from ray_committer.records.job import RecordJob
from ray_committer.records.session import sessions

_log = logging.getLogger(__name__)
_REFUSALS = (DatabaseRefusedError, StagingChangedError, TableColumnsError)


def abort(job: RecordJob, error: BaseException) -> None:
    """Abort a job whose write failed.

    A recorded job is also given up if its rows were refused, which would happen again. After a lost
    answer it is kept. Users must see the write's own `error`: a failure of the abort is logged, and
    added to it as a note.
    """
    is_refused = isinstance(error, _REFUSALS) or type(error) is CommitConflictError
    try:
        with sessions(job.database, connect) as found:
            abort_job(found, job.table, job.write_id, undo=is_refused)
    except RayCommitterError as e:
        _log.warning("the job was not aborted: %s", e)
        error.add_note(f"The job was not aborted: {e}")


@contextmanager
def aborted_on_failure(job: RecordJob) -> Iterator[None]:
    """Abort the job if the block raises an exception, and raise the exception again."""
    try:
        yield
    except BaseException as e:
        abort(job, e)
        raise
