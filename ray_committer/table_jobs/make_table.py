"""Make a destination a table with a log, and put the files that are there into the log.

The definition comes first: a job that is set up after it belongs to the table, and a job that was set up
before it does not. So the files are listed when no job of the second kind is left. The claim for them
must be the entry right after those that were read before the listing, when no job of the table was at
work. So no file appears or goes between the listing and the claim.
"""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.errors import CommitConflictError, TableClaimError, mark
from ray_committer.job_files.commands import abort_command, commit_command
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.listing import jobs_at, readable
from ray_committer.protocol.claims import WHOLE_TABLE
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import (
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    WriteMode,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.table_files import as_listed, list_table
from ray_committer.tables.append import decide
from ray_committer.tables.checkpoint import read_files
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.log import read_definition, read_entries
from ray_committer.tables.other_tables import refuse_tables_above
from ray_committer.tables.put import complete_table, init_table, put_entry
from ray_committer.tables.release import how_to_end

_ENDED = (Phase.COMMITTED, Phase.ABORTED)


def make_table(
    store: StoreOperations, table: TablePlaces, definition: TableDefinition, now_milliseconds: int
) -> tuple[int, TableClaim]:
    """Make the table; return the claim that names its files, with its version.

    After a crash, the same command continues. `CommitConflictError` if it is a table already, or if jobs
    are at work there. `PreflightError` if it is in another table, or has one below it.
    """
    if read_definition(store, table) is None:
        refuse_tables_above(store, table.destination)
        _refuse_jobs(store, table, definition)
        # Before anything is made: a refusal must leave no definition behind.
        for _ in _files(store, table):
            pass  # a table below is an error
    # From here on each job that is set up belongs to the table. So the second look at the jobs finds
    # every one that does not.
    definition = init_table(store, table, definition)
    are_known = _refuse_jobs(store, table, definition)
    import_claim = _imported(store, table, definition, are_known=are_known)
    import_claim = import_claim or _import(store, table, definition, now_milliseconds)
    commit = TableCommit(
        job_id=import_claim.claim.job_id,
        job_attempt=import_claim.claim.job_attempt,
        claim=import_claim.version,
        quiet=import_claim.claim.quiet,
        named=import_claim.claim.named,
        at_milliseconds=now_milliseconds,
    )
    version, decision = decide(store, table, commit)
    if isinstance(decision, TableAbort):
        raise TableClaimError(
            f"{mark(table.entry(version))}: says that the claim for the files of the table was given up",
            "nothing was changed: run the same command",
        )
    if are_known:
        complete_table(store, table, definition)
    return import_claim.version, import_claim.claim


def _imported(
    store: StoreOperations, table: TablePlaces, definition: TableDefinition, *, are_known: bool
) -> ClaimInFlight | None:
    """The claim of an earlier run that has not put its commit; `CommitConflictError` if it has."""
    start: int | None = None
    for version, entry in read_entries(store, table):
        if isinstance(entry, TableClaim) and entry.job_id == import_job_id(definition.table_id):
            start, claim = version, entry
        elif isinstance(entry, TableAbort) and entry.claim == start:
            start = None  # a person has given it up
        elif isinstance(entry, TableCommit) and entry.claim == start:
            if are_known:
                complete_table(store, table, definition)
            raise CommitConflictError(
                f"{mark(table.definition)}: {mark(table.destination)} is a table with a log already",
                "nothing was changed, and nothing is left to do",
            )
    return None if start is None else ClaimInFlight(start, claim)


def _import(
    store: StoreOperations, table: TablePlaces, definition: TableDefinition, now_milliseconds: int
) -> ClaimInFlight:
    """Put the claim of all files that are there and not in the log yet."""
    job_id = import_job_id(definition.table_id)
    while True:
        state, known = read_files(store, table, definition.table_id)
        if state.in_flight:
            pending = state.in_flight[0]
            raise CommitConflictError(
                f"{mark(table.entry(pending.version))}: job {pending.claim.job_id} is at work in the "
                "table",
                f"{how_to_end(store, table, pending)}; then run the same command",
            )
        in_log = {path for files in known.values() for path in files}
        files = [file for file in _files(store, table) if file.path not in in_log]
        lists = save_file_set(store, table, files, job_id=job_id, job_attempt=0)
        claim = TableClaim(
            job_id=job_id,
            job_attempt=0,
            nonce=definition.table_id,
            mode=WriteMode.CREATE,
            is_import=True,
            partitions=[WHOLE_TABLE],
            files=lists,
            quiet=state.quiet,
            named=state.named + lists.files,
            at_milliseconds=now_milliseconds,
        )
        # Put right after the entries that were read before the listing: if another entry came in
        # between, the files are listed again.
        version = state.version + 1
        there = put_entry(store, table, version, claim)[0]
        if isinstance(there, TableClaim) and claim.repeats(there):
            return ClaimInFlight(version, there)


def _files(store: StoreOperations, table: TablePlaces) -> Iterator[ListedFile]:
    """The files that readers see; errors as `list_table`."""
    return (as_listed(path, status) for path, status in list_table(store, table) if not is_hidden(path))


def _refuse_jobs(store: StoreOperations, table: TablePlaces, definition: TableDefinition) -> bool:
    """Refuse jobs that were set up before the table was made, because they do not know the log.

    False if there are jobs of a table that was here before: its log was deleted, so they cannot be
    committed, but they can still move files.
    """
    are_known = True
    for job in readable(jobs_at(store, table.destination)):
        current = read_state(store, job)
        if current is not None and current.phase in _ENDED:
            continue
        if current is None or current.state.table is None:
            raise CommitConflictError(
                f"{mark(job.directory)}: job {job.job_id} was set up before the table was made",
                f"finish it with: {commit_command(store, job)}, or give it up with: "
                f"{abort_command(store, job)}; then run the same command",
            )
        are_known &= current.state.table.table_id == definition.table_id
    return are_known


def import_job_id(table_id: str) -> str:
    """The id of the job that names the files that were there when a table was made."""
    return f"import-{table_id}"
