"""Say in the log of a table that a job is committed, and that its old files are gone.

The entry `commit` is the commit point for readers of the log. The job is sealed before, so it cannot be
undone after that. Each entry is in the log once, however many runs append it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, RayCommitterError
from ray_committer.interop.exports import run
from ray_committer.job_files.commands import export_command
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import ClaimedTable, CommitRecord, ReplacedFile
from ray_committer.protocol.table_entry import Decision, TableAbort, TableCommit, TableDone
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.stages.list_new_files import relative
from ray_committer.tables.append import Decided, append, append_next, find_decision, put_decision
from ray_committer.tables.checkpoint import is_due_between
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.log import read_entries, require_definition
from ray_committer.tables.save_checkpoint import save_checkpoint

NEAR = 16
"""How far after an entry after which a checkpoint is due a commit that began before it saves one."""


def commit_in_table(context: JobContext, record: CommitRecord, *, is_resumed: bool) -> Decided | None:
    """Append that a sealed job is committed; return where it is; None without a table. Idempotent.

    If another run made the claim, `is_resumed`, the table can be another one by now: `TableLogError`.
    `CommitStateUnknownError` if the claim was given up, or another one of this job was committed: the
    caller removes no old file then.
    """
    if record.table is None:
        return None
    store, job, table = context.store, context.job, TablePlaces(context.job.destination)
    if is_resumed:
        require_definition(store, table, record.table.table_id)
    entry = TableCommit(
        job_id=job.job_id,
        job_attempt=job.number,
        claim=record.table.version,
        quiet=record.table.quiet,
        named=record.table.named,
        at_milliseconds=context.now_milliseconds(),
    )
    since, is_end = record.table.end or record.table.version, record.table.end > 0
    entries = read_entries(store, table, since, is_end=is_end)
    found = find_decision(store, table, entries, entry)
    if found is not None:
        decided = Decided(*found)
    else:
        old = _removed(context, record)
        removed = save_file_set(store, table, old, job_id=job.job_id, job_attempt=job.number)
        kept = record.keeps and removed.files > 0
        named = entry.named + removed.files
        entry = structs.replace(entry, removed=removed, kept=kept, named=named)
        is_beaten = bool(entries) or since > record.table.version  # others put theirs at the same time
        decided = put_decision(store, table, entry, since, entries, is_beaten=is_beaten)
    decision = decided.decision
    if isinstance(decision, TableAbort) or decision.claim != entry.claim:
        raise _given_up(context, table.entry(decided.version), decision)
    return decided


def ends_with_its_commit(record: CommitRecord) -> bool:
    """Whether the claim of a sealed job ends with its commit, because no old file gives way to it. All
    of its files were in place when it was sealed, and later jobs can have removed them since."""
    return record.table is not None and not _old_files(record)


def end_in_table(context: JobContext, record: CommitRecord, committed: Decided | None) -> None:
    """Append that the old files of a job whose commit is in the log are gone; idempotent."""
    if record.table is None or committed is None or not (removed := _removed(context, record)):
        return
    entry = TableDone(
        job_id=context.job.job_id,
        job_attempt=context.job.number,
        claim=record.table.version,
        quiet=record.table.quiet,
        named=record.table.named + len(removed),
        at_milliseconds=context.now_milliseconds(),
    )
    table = TablePlaces(context.job.destination)
    if committed.end is not None:
        append_next(context.store, table, entry, committed.end)
    else:
        append(context.store, table, entry, committed.version)


def save_checkpoint_if_due(context: JobContext, record: CommitRecord, committed: int | None) -> None:
    """Save a checkpoint if many entries, or many files in them, are after the last one; a failure is a
    notice."""
    table = record.table
    if table is None or committed is None or not _is_due(context, record, table, committed):
        return
    places = TablePlaces(context.job.destination)
    failure = save_checkpoint(context.store, places, table.table_id, only_if_due=True)
    if failure is not None:
        context.notice(failure)


def export_table(context: JobContext, record: CommitRecord, committed: int | None) -> None:
    """Export the table of a committed job, if the options ask for it; a failure is a notice."""
    destination = context.job.destination
    if not context.options.export_delta:
        return
    if record.table is None:
        context.notice(f"{destination}: is not a table with a log, so nothing was exported")
    elif committed is not None:
        try:
            run.export_table(context.store, TablePlaces(destination))
        except Exception as e:  # noqa: BLE001 - whatever a library raises, the job is committed
            command = export_command(context.store, destination)
            context.notice(
                f"{destination}: the job is committed, but version {committed} was not exported to "
                f"Delta ({context.located(str(e))}); to export it, run: {command}"
            )


def version_of(context: JobContext, record: CommitRecord) -> int | None:
    """The version at which a committed job was committed; None, with a notice, if the log cannot be
    read."""
    try:
        found = commit_in_table(context, record, is_resumed=True)
        return found.version if found is not None else None
    except (OSError, RayCommitterError) as e:
        context.notice(f"{context.job.destination}: the log of the table could not be read ({e})")
        return None


def _given_up(context: JobContext, entry: str, decision: Decision) -> CommitStateUnknownError:
    job_id = context.job.job_id
    is_abort = isinstance(decision, TableAbort)
    what = (
        f"the claim of job {job_id} was given up"
        if is_abort
        else f"another claim of job {job_id} counts"
    )
    return CommitStateUnknownError(
        f"{entry}: says that {what}, so this commit has stopped before it removed old files",
        "some of its new files can be in place: look at the table with `ray-committer table scan DEST`, "
        "then run the application again",
    )


def _is_due(context: JobContext, record: CommitRecord, table: ClaimedTable, committed: int) -> bool:
    """Whether the entries of this job include one after which a checkpoint is due, or such an entry was
    put just before the commit: of many jobs that commit at once, each looking for it would be too many.
    """
    removed = _removed(context, record)
    is_last = is_due_between(range(table.version - 1, table.version), range(0))
    first = table.version - 1 if is_last else max(table.version - 1, committed - NEAR)
    versions = range(first, committed + bool(removed))
    return is_due_between(versions, range(table.named - record.files, table.named + len(removed)))


def _old_files(record: CommitRecord) -> Sequence[ReplacedFile]:
    return (*record.replaced, *record.overwritten)


def _removed(context: JobContext, record: CommitRecord) -> list[ListedFile]:
    """The old files in the table, as its log names them."""
    destination = context.job.destination
    inside = (file for file in _old_files(record) if is_inside(file.path, destination))
    return [
        ListedFile(relative(destination, file.path), file.size, file.modified_milliseconds, file.etag)
        for file in inside
    ]
