"""Find out, when a job is set up, whether its destination is a table with a log."""

from __future__ import annotations

from ray_committer.errors import SettingsError, TaskCommitError, mark
from ray_committer.job_files.job_state import Seen, StateChangedError, join_table
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import UNSTAMPED, Phase, TableBase
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import find_last_file, read_definition


def find_table(
    store: StoreOperations, job: JobAttempt, current: Seen, run_id: str | None = None
) -> Seen:
    """Note the table of a job that was just set up, with its last version, and the `run_id` of the job;
    one request without a table. The job has its state already. So if a process makes the table at the
    same time, one of the two sees the other."""
    table = TablePlaces(job.destination)
    definition = read_definition(store, table)
    if definition is None:
        return current
    if run_id is not None:
        store.write_once(job.run_id, run_id.encode())
    # After the run id is saved: the state names it, and whoever sees that state reads the file.
    base = TableBase(definition.table_id, find_last_file(store, table), has_run=run_id is not None)
    try:
        return join_table(store, job, current, base)
    except StateChangedError as e:
        raise TaskCommitError(
            f"{mark(job.directory)}: another process changed this job while it was set up",
            "give every job and every job attempt its own id",
        ) from e


def find_table_late(store: StoreOperations, job: JobAttempt, current: Seen) -> Seen:
    """Note the table of an open job that another committer has set up, with its last version now: which
    one the job has read is not known. `StateChangedError` if another process changes the job.
    """
    state = current.state
    if current.phase is not Phase.OPEN or state.stamp != UNSTAMPED or state.table is not None:
        return current
    table = TablePlaces(job.destination)
    definition = read_definition(store, table)
    if definition is None:
        return current
    base = TableBase(definition.table_id, find_last_file(store, table), is_late=True)
    return join_table(store, job, current, base)


def require_table(job: JobAttempt, current: Seen) -> None:
    """`SettingsError` if a job that is to keep the files that it replaces belongs to no table."""
    if current.state.table is None:
        raise SettingsError(
            f"{mark(job.destination)}: is not a table with a log, so the files that job {job.job_id} "
            "replaces cannot be kept",
            "nothing was changed: make it one with: ray-committer table init DEST, or do not set "
            "keep_replaced",
        )
