"""Commit the work of a run id once: a job whose work another job has done is given up, and says so.

The run id is kept with the job, so every run of its commit has it. The log of the table decides: what
another job has committed under the run id is not committed again until it is undone.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ray_committer.errors import CommitStateUnknownError, RayCommitterError, SettingsError, mark
from ray_committer.job_files.commands import abort_command
from ray_committer.job_files.job_state import Seen, read_state
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import UNDECIDED, Phase
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import CommittedRun, digest_of_work
from ray_committer.stages.context import JobContext
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import shown_url
from ray_committer.tables import checkpoint
from ray_committer.tables.log import read_definition
from ray_committer.tables.run_session import Key, second_write, session_of
from ray_committer.tables.runs import claim_of_run, read_run


class RunCommittedError(Exception):
    """Another job has done the work of this job's run id: it is committed already."""

    def __init__(self, run: CommittedRun, job_id: str) -> None:
        super().__init__(run, job_id)
        self.run, self.job_id = run, job_id


@dataclass(frozen=True, slots=True)
class CommittedBefore:
    """The version at which the work of a run id was committed, and the job that did it."""

    version: int
    job_id: str


def require_log(store: StoreOperations, destination: str, run_id: str | None) -> None:
    """`SettingsError` for a run id at a destination that is no table with a log."""
    if run_id is not None and read_definition(store, TablePlaces(destination)) is None:
        raise without_log(store, destination, run_id)


def without_log(store: StoreOperations, destination: str, run_id: str) -> SettingsError:
    """The error for a run id that nothing can be compared with."""
    init = shlex.join(["ray-committer", "table", "init", shown_url(store.spec, destination)])
    return SettingsError(
        f"{mark(destination)}: is not a table with a log, so nothing shows whether the work of run id "
        f"{run_id} is committed already",
        f"nothing was changed: make it one with: {init}, or do not set run_id",
    )


def read_run_id(store: StoreOperations, job: JobAttempt, current: Seen) -> str | None:
    """The run id that a job was set up with."""
    table = current.state.table
    if table is None or not table.has_run:
        return None
    try:
        return store.read(job.run_id).decode()
    except (FileNotFoundError, UnicodeDecodeError) as e:
        raise CommitStateUnknownError(
            f"{mark(job.run_id)}: the run id of job {job.job_id} is gone, so it is not known whether "
            "its work is committed already",
            f"nothing was changed: give the job up with: {abort_command(store, job)}; then run its "
            f"application again",
        ) from e


def run_id_of(context: JobContext, current: Seen) -> str | None:
    """The run id of a job that is not decided; `SettingsError` if the options name another one."""
    given = context.options.run_id
    if context.options.table_work is not None or current.phase not in UNDECIDED:
        return None
    kept = read_run_id(context.store, context.job, current)
    if None not in (given, kept) and given != kept:
        raise SettingsError(
            f"{mark(context.job.directory)}: was set up under run id {kept}, so it cannot be committed "
            f"under {given}",
            "nothing was changed: run the same command without a run id",
        )
    if given is not None and current.state.table is None:
        raise without_log(context.store, context.job.destination, given)
    return kept or given


def key_of(context: JobContext, run_id: str) -> Key:
    """By what a session knows a run id of a table."""
    return context.url, run_id


def refuse_second_write(context: JobContext, committed: TableClaim, what: str) -> None:
    """`SettingsError` if this session was told that the job of a claim with the same run id is
    committed: this is another write, whose rows must not be dropped."""
    key = key_of(context, committed.run_id or "")
    if session_of(context.options.known_jobs).has_committed(key, committed.job_id):
        raise second_write(key, what)


def say_who_has_done_it(context: JobContext, claim: TableClaim, run: CommittedRun) -> RunCommittedError:
    """The answer for a job whose work another job has done. `SettingsError` if it is other work, or if
    this session has done it: its rows must not be dropped."""
    store, table = context.store, TablePlaces(context.job.destination)
    done = claim_of_run(store, table, run)
    refuse_second_write(context, done, f"is committed as version {run.version}")
    if digest_of_work(claim) != run.work:
        raise SettingsError(
            f"{mark(table.destination)}: run id {run.run_id} is committed already as version "
            f"{run.version}, but by job {done.job_id}, which has done other work: {_work(done)}, not "
            f"{_work(claim)}",
            f"nothing was changed, and the rows of this job are not in the table: give it up with: "
            f"{abort_command(store, context.job)}; then run its application under another run id, or "
            f"undo version {run.version} first",
        )
    return RunCommittedError(run, done.job_id)


def find_committed(context: JobContext, run_id: str) -> CommittedBefore | None:
    """What has done the work of a run id, if the job was given up, or is gone, since it found that."""
    store, table = context.store, TablePlaces(context.job.destination)
    try:
        current = read_state(store, context.job)
        if current is not None and current.phase is not Phase.ABORTED:
            return None
        definition = read_definition(store, table)
        if definition is None:
            return None
        run = read_run(store, table, definition.table_id, run_id)
        state = checkpoint.read_state(store, table, definition.table_id)
        # While the claim is in flight, old files may still be there: it is not done for a reader.
        if run is None or run.undone or any(pending.version == run.claim for pending in state.in_flight):
            return None
        return CommittedBefore(run.version, claim_of_run(store, table, run).job_id)
    except (OSError, RayCommitterError):
        return None


def is_committed(store: StoreOperations, destination: str, run_id: str | None) -> bool:
    """Whether the work of a run id is committed at a table, before its tasks run."""
    table = TablePlaces(destination)
    definition = read_definition(store, table) if run_id is not None else None
    if definition is None or run_id is None:
        return False
    run = read_run(store, table, definition.table_id, run_id)
    return run is not None and not run.undone


def _work(claim: TableClaim) -> str:
    paths = [path or "the whole table" for path in claim.partitions[:3]]
    more = len(claim.partitions) - len(paths)
    return f"{claim.mode} of {' | '.join(paths)}" + (f" and {more:,} more" if more > 0 else "")
