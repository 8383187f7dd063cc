"""Say in the log of a table that a job is committed, and that its old files are gone.

The entry `commit` is the commit point for readers of the log. The job is sealed before, so it cannot be
undone after that. Each entry is in the log once, however many runs append it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, RayCommitterError, mark, why
from ray_committer.interop.exports import run
from ray_committer.job_files.commands import export_command
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.paths import is_inside
from ray_committer.protocol.record import ClaimedTable, CommitRecord
from ray_committer.protocol.table_entry import Decision, TableAbort, TableCommit, TableDone
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.context import JobContext
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stages.turns.turn import Turn
from ray_committer.tables.append import Decided, append, append_next, find_decision, put_decision
from ray_committer.tables.checkpoint import is_due_between
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.log import read_entries, require_definition
from ray_committer.tables.save_checkpoint import save_checkpoint

E = TypeVar("E", TableCommit, TableDone)
NEAR = 16
"""How far after an entry after which a checkpoint is due a commit that began before it saves one."""


def turn_of(context: JobContext, record: CommitRecord, *, is_resumed: bool) -> Turn:
    """The turn of a recorded job; if `is_resumed`, another run has made its claim."""
    if record.table is None:
        return Turn(context)
    return RecordedTurn(context, record, record.table, is_resumed)


@dataclass(slots=True)
class RecordedTurn(Turn):
    """The turn of a recorded job of a table with a log; `decided` is its commit there, once known."""

    record: CommitRecord
    table: ClaimedTable
    is_resumed: bool
    decided: Decided | None = None

    @property
    def ends_with_its_commit(self) -> bool:
        return not self.record.old_files

    def commit(self) -> int | None:
        """Append that a sealed job is committed, unless the log says it; the version of that. If another
        run made the claim, the table can be another one by now: `TableLogError`.
        `CommitStateUnknownError` if the claim was given up, or another counts: no old file goes."""
        context, table = self.context, self.table
        store, job, places = context.store, context.job, TablePlaces(context.job.destination)
        if self.is_resumed:
            require_definition(store, places, table.table_id)
        entry = self._entry(TableCommit, table.named)
        since, is_end = table.end or table.version, table.end > 0
        entries = read_entries(store, places, since, is_end=is_end)
        known = find_decision(store, places, entries, entry)
        if known is not None:
            decided = Decided(*known)
        else:
            old = _removed(context, self.record)
            removed = save_file_set(store, places, old, job_id=job.job_id, job_attempt=job.number)
            kept = table.keeps and removed.files > 0
            named = entry.named + removed.files
            entry = structs.replace(entry, removed=removed, kept=kept, named=named)
            is_beaten = bool(entries) or since > table.version  # others put theirs at the same time
            decided = put_decision(store, places, entry, since, entries, is_beaten=is_beaten)
        decision = decided.decision
        if isinstance(decision, TableAbort) or decision.claim != entry.claim:
            raise _given_up(context, places.entry(decided.version), decision)
        self.decided = decided
        return decided.version

    def _entry(self, kind: type[E], named: int) -> E:
        return kind(
            job_id=self.context.job.job_id,
            job_attempt=self.context.job.number,
            claim=self.table.version,
            quiet=self.table.quiet,
            named=named,
            at_milliseconds=self.context.now_milliseconds(),
        )

    def end(self) -> None:
        context, table, decided = self.context, self.table, self.decided
        if decided is None or not (removed := _removed(context, self.record)):
            return
        entry = self._entry(TableDone, table.named + len(removed))
        places = TablePlaces(context.job.destination)
        if decided.end is not None:
            append_next(context.store, places, entry, decided.end)
        else:
            append(context.store, places, entry, decided.version)

    def conclude(self) -> int | None:
        """Save a checkpoint if many entries or files are after the last one; export if asked to."""
        version = self._version()
        if version is not None:
            if _is_due(self.context, self.record, self.table, version):
                self._save_checkpoint()
            if self.context.options.export_delta:
                self._export(version)
        return version

    def _version(self) -> int | None:
        """The version of the commit; None, with a notice, if the log cannot be read."""
        if self.decided is not None:
            return self.decided.version
        self.is_resumed = True  # another run has committed the job
        try:
            return self.commit()
        except (OSError, RayCommitterError) as e:
            destination = self.context.job.destination
            self.context.notice(
                f"{mark(destination)}: the log of the table could not be read ({why(e)})"
            )
            return None

    def _save_checkpoint(self) -> None:
        store, places = self.context.store, TablePlaces(self.context.job.destination)
        failure = save_checkpoint(store, places, self.table.table_id, only_if_due=True)
        if failure is not None:
            self.context.notice(failure)

    def _export(self, version: int) -> None:
        context, destination = self.context, self.context.job.destination
        try:
            run.export_table(context.store, TablePlaces(destination))
        except Exception as e:  # noqa: BLE001 - whatever a library raises, the job is committed
            command = export_command(context.store, destination)
            context.notice(
                f"{mark(destination)}: the job is committed, but version {version} was not exported to "
                f"Delta ({why(e)}); to export it, run: {command}"
            )


def _given_up(context: JobContext, entry: str, decision: Decision) -> CommitStateUnknownError:
    job_id = context.job.job_id
    is_abort = isinstance(decision, TableAbort)
    what = (
        f"the claim of job {job_id} was given up"
        if is_abort
        else f"another claim of job {job_id} counts"
    )
    return CommitStateUnknownError(
        f"{mark(entry)}: says that {what}, so this commit has stopped before it removed old files",
        "some of its new files can be in place: look at the table with `ray-committer table scan DEST`, "
        "then run the application again",
    )


def _is_due(context: JobContext, record: CommitRecord, table: ClaimedTable, committed: int) -> bool:
    """Whether a checkpoint is due after an entry of this job, or after one that was put just before the
    commit: of many jobs that commit at once, each looking for it would be too many."""
    removed = _removed(context, record)
    is_last = is_due_between(range(table.version - 1, table.version), range(0))
    first = table.version - 1 if is_last else max(table.version - 1, committed - NEAR)
    versions = range(first, committed + bool(removed))
    return is_due_between(versions, range(table.named - record.files, table.named + len(removed)))


def _removed(context: JobContext, record: CommitRecord) -> list[ListedFile]:
    """The old files in the table, as its log names them."""
    destination = context.job.destination
    inside = (file for file in record.old_files if is_inside(file.path, destination))
    return [
        ListedFile(relative(destination, file.path), file.size, file.modified_milliseconds, file.etag)
        for file in inside
    ]
