"""Resolve a claim whose job is gone, because its directory below ``_temporary`` was deleted.

As long as the state of the job is there, it decides. Without it, only the log can. A job that is
committed there is finished: its old files are removed, and ``done`` is appended. Other jobs wait until
then. Any other job is given up. The decision is an entry of the log, and of several at once the first
one counts.

To give a job up appends ``abort``, which lets other jobs start, before new files are deleted. The other
order is not safe: the job can be committed meanwhile, and the table would lose these files. So from the
``abort`` on, the new files are orphans: no entry that counts names them. `remove_orphans` deletes them
under a claim of its own, when no other job works there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ray_committer.errors import (
    JobGoneError,
    RayCommitterError,
    TableClaimError,
    ValidationError,
    mark,
    some_of,
)
from ray_committer.job_files.commands import abort_command, commit_command, resolve_command
from ray_committer.limits.waiting import Waiting
from ray_committer.protocol.file_list import FileSet, ListedFile
from ray_committer.protocol.hidden_names import is_hidden
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.table_entry import (
    Decision,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    TableDone,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.turns.list_new_files import relative
from ray_committer.stores.base import StoreOperations
from ray_committer.table_jobs.remove_listed_files import Removal, keep_listed_files, remove_listed_files
from ray_committer.table_jobs.snapshot import definition_of
from ray_committer.table_jobs.table_files import files_of, find_listed, list_table
from ray_committer.tables.append import append, decide
from ray_committer.tables.jobs_in_log import Logged, find_logged
from ray_committer.tables.log import read_entries, read_entry
from ray_committer.tables.release import job_of

E = TypeVar("E", TableCommit, TableAbort, TableDone)


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a table with a log, and how long it may wait for jobs that are at work there."""

    store: StoreOperations
    table: TablePlaces
    definition: TableDefinition
    waiting: Waiting
    now_milliseconds: int

    @classmethod
    def at(cls, store: StoreOperations, destination: str, waiting: Waiting) -> Repair:
        """Begin a repair; `JobNotFoundError` if there is no table."""
        table = TablePlaces(destination)
        return cls(store, table, definition_of(store, table), waiting, time.time_ns() // 1_000_000)

    def files(self, claim: TableClaim, file_set: FileSet) -> list[ListedFile]:
        """The files of an entry about a claim."""
        return files_of(self.store, self.table, claim, file_set)

    def entry(self, kind: type[E], about: Logged | ClaimInFlight, **fields: Any) -> E:
        """A new entry about a claim."""
        claim = about.claim
        return kind(
            job_id=claim.job_id,
            job_attempt=claim.job_attempt,
            claim=about.version,
            at_milliseconds=self.now_milliseconds,
            **fields,
        )


def find_claim(repair: Repair, job_id: str, job_attempt: int | None) -> Logged:
    """The claim of a job: the one in flight or, if there is none, its last one.

    `JobGoneError` if the log has none, `TableClaimError` if the job of that name is there without one.
    Other errors as `find_logged`.
    """
    store, table = repair.store, repair.table
    logged = find_logged(store, table, repair.definition.table_id, job_id, job_attempt)
    if isinstance(logged, Logged):
        return logged
    raise _no_claim(store, table, job_id, is_aborted=logged is not None)


def finish_committed(repair: Repair, logged: Logged, committed: int, *, accepts_lost: bool) -> Removal:
    """Remove the old files of a job that is gone and that the log says is `committed`; idempotent.

    `TableClaimError` if the job is not gone. `ValidationError` if a new file is not in its place with
    proof, unless that is accepted: those that were to take the names of old files are moved last.
    """
    if not logged.in_flight:
        return Removal()
    _refuse_job(repair, logged.claim)
    if not accepts_lost:
        _refuse_lost(repair, logged)
    return finish_removal(repair, logged, committed)


def give_up_claims(repair: Repair, logged: Logged) -> int:
    """Give up a claim whose job is gone, and the other claims of that attempt; the new files are orphans
    then, until `remove_orphans`.

    Returns the version of the abort; idempotent. `TableClaimError` if the job is not gone, or was
    committed meanwhile.
    """
    if logged.aborted is not None:
        return logged.aborted
    _refuse_job(repair, logged.claim)
    claims: list[Logged | ClaimInFlight] = [*logged.others, logged]
    # All claims of the attempt, and the one in question last: a crash in between leaves it in flight, so
    # the same command goes on.
    for each in claims:
        version, decision = give_up(repair, each, "a person has given it up")
        if isinstance(decision, TableCommit):
            raise TableClaimError(
                f"{mark(repair.table.entry(version))}: says that job {logged.claim.job_id} is committed "
                "since",
                "nothing was changed: run the same command again, which finishes the job",
            )
    return version


def give_up(repair: Repair, logged: Logged | ClaimInFlight, why: str) -> tuple[int, Decision]:
    """Append the abort of a claim, unless it is decided; the decision that counts, and its version."""
    return decide(repair.store, repair.table, repair.entry(TableAbort, logged, why=why))


def finish_removal(repair: Repair, logged: Logged | ClaimInFlight, committed: int) -> Removal:
    """Remove the old files that a commit names, and append that they are gone; idempotent.

    A path that is also a new file of the job is left alone: the new file is there, or only the old one.
    What no entry names is also kept, and named.
    """
    store, table, claim = repair.store, repair.table, logged.claim
    commit = read_entry(store, table, committed)
    if not isinstance(commit, TableCommit) or not commit.removed.files:
        return Removal()
    new = {file.path for file in repair.files(claim, claim.files)}
    old = [file for file in repair.files(claim, commit.removed) if file.path not in new]
    remove = keep_listed_files if commit.kept else remove_listed_files
    # Asked once more between the look and the removal, see `remove_listed_files`.
    is_in_flight = partial(_is_not_done, store, table, logged.version, committed)
    removal = remove(store, table, logged.version, old, is_in_flight)
    known = new.union(file.path for file in old)
    kept = (*removal.kept, *_foreign(store, table, claim, known))
    # Last: until `done` no other job works in these partitions, so a crash before it leaves nothing
    # unprotected.
    append(store, table, repair.entry(TableDone, logged), committed)
    return Removal(removal.removed, kept)


def _foreign(
    store: StoreOperations, table: TablePlaces, claim: TableClaim, known: set[str]
) -> Iterator[str]:
    """The files where the job replaces data that no entry names: the job would have removed them."""
    for root in claim.replaces or ():
        paths = (path for path, _ in list_table(store, table))
        if root:
            listed = store.list_files(join(table.destination, root))
            paths = (relative(table.destination, status.path) for status in listed)
        for path in paths:
            if path not in known and not is_hidden(path):
                yield f"{path}: no entry of the log names it"


def _is_not_done(store: StoreOperations, table: TablePlaces, claim: int, committed: int) -> bool:
    entries = read_entries(store, table, committed)
    return not any(isinstance(entry, TableDone) and entry.claim == claim for _, entry in entries)


def _no_claim(
    store: StoreOperations, table: TablePlaces, job_id: str, *, is_aborted: bool
) -> RayCommitterError:
    command = "look at the log with: ray-committer table log DEST"
    if is_aborted:
        return TableClaimError(
            f"{mark(table.log)}: says that job {job_id} was aborted before it had a claim", command
        )
    job = new_job_attempt(table.destination, job_id, 0)
    if store.get_status(job.job_directory) is not None:
        return TableClaimError(
            f"{mark(job.job_directory)}: is there, and the log has no claim of that job",
            _end_job(store, job),
        )
    return JobGoneError(
        f"{mark(table.log)}: has no claim of job {job_id}", f"nothing was changed: {command}"
    )


def _refuse_job(repair: Repair, claim: TableClaim) -> None:
    """`TableClaimError` if the job of the claim is there."""
    store, table = repair.store, repair.table
    current = job_of(store, table, claim)
    if current is not None:
        job = new_job_attempt(table.destination, claim.job_id, claim.job_attempt)
        raise TableClaimError(
            f"{mark(job.directory)}: job {job.job_id} is there ({current.phase}), so its state decides "
            "what becomes of its claim",
            _end_job(store, job),
        )


def _end_job(store: StoreOperations, job: JobAttempt) -> str:
    return (
        f"nothing was changed: finish the job with: {commit_command(store, job)}, or give it up with: "
        f"{abort_command(store, job)}"
    )


def _refuse_lost(repair: Repair, logged: Logged) -> None:
    """`ValidationError` if a new file of a claim that is committed in the log is lost."""
    store, table, claim = repair.store, repair.table, logged.claim
    findings = find_listed(store, table, repair.files(claim, claim.files))
    if wrong := [str(finding) for finding in findings if not finding.is_proved]:
        command = resolve_command(store, table.destination, claim)
        raise ValidationError(
            f"{mark(table.destination)}: job {claim.job_id} is committed in the log, but {len(wrong)} "
            f"of its {claim.files.files} new files are not in their places with proof: {some_of(wrong)}",
            f"nothing was changed: restore these files from soft delete or a snapshot, and run the same "
            f"command. If they are lost, end the claim with: {command} --accept-lost, then run the "
            f"job's application again",
        )
