"""Resolve the claim of a job that is gone: commit it in the table's log, or give it up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ray_committer.errors import CommitConflictError, CommitStateUnknownError
from ray_committer.jobs.open_job import StorageOptions, open_here
from ray_committer.jobs.table import require_table
from ray_committer.options import CommitOptions
from ray_committer.protocol.table_entry import TableDefinition
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stages.remove_listed_files import Removal
from ray_committer.stages.remove_orphans import remove_orphans
from ray_committer.stages.resolve_claim import (
    Logged,
    files_of,
    find_claim,
    resolve_back,
    resolve_forward,
)
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import shown_url
from ray_committer.tables.claim import Waiting

_DEFAULTS = CommitOptions()


@dataclass(frozen=True, slots=True)
class ResolvedClaim:
    """The claim of a job, and what became of it.

    claim: the version of the claim; `version`: that of the entry that decides it.
    is_committed: whether the job is committed in the log, or given up.
    removed: the number of files that were removed: old files, or new files of a job that was given up.
    kept: the files that were not removed, and why.
    """

    job_id: str
    job_attempt: int
    claim: int
    version: int
    is_committed: bool
    removed: int
    kept: tuple[str, ...] = ()


def resolve_claim(
    dest: str,
    job_id: str,
    *,
    forward: bool,
    job_attempt: int | None = None,
    accept_lost: bool = False,
    options: CommitOptions = _DEFAULTS,
    storage_options: StorageOptions | None = None,
) -> ResolvedClaim:
    """Commit the claim of a job whose directory below ``_temporary`` was deleted, or give it up;
    idempotent.

    With `forward`, each new file of the job must be in its place with proof; then the job is committed
    in the log, and the old files that it replaces are removed. Otherwise the claim is given up, and the
    new files that are in their places with proof are removed. If the log says already that the job is
    committed, only `forward` is possible; with `accept_lost` also if new files are lost.

    `TableClaimError` if the job is there, if the log has the other decision, or if it does not show
    which old files the job replaces. `ValidationError` if a new file is not in its place.
    `JobNotFoundError` if the log has no claim of the job. `CommitConflictError` if another job is at
    work where new files of a claim that was given up are: `scan_table` removes them later.
    """
    with (
        open_here(dest, options, storage_options) as (store, destination),
        unknown_if_it_fails(destination),
    ):
        return resolve_on(
            store,
            destination,
            job_id,
            forward=forward,
            job_attempt=job_attempt,
            accept_lost=accept_lost,
            waiting=Waiting(options.conflict_wait_seconds),
        )


def resolve_on(
    store: StoreOperations,
    destination: str,
    job_id: str,
    *,
    forward: bool,
    job_attempt: int | None = None,
    accept_lost: bool = False,
    waiting: Waiting,
) -> ResolvedClaim:
    """`resolve_claim` on a store that is open."""
    table, definition = require_table(store, destination)
    one = find_claim(store, table, definition, job_id, job_attempt)
    now, claim = time.time_ns() // 1_000_000, one.claim
    if forward:
        version, removal = resolve_forward(store, table, definition, one, now, accepts_lost=accept_lost)
    else:
        version = resolve_back(store, table, one, now)
        removal = _remove(store, table, definition, one, version, now, waiting)
    number, removed = claim.job_attempt, removal.removed
    return ResolvedClaim(claim.job_id, number, one.version, version, forward, removed, removal.kept)


@contextmanager
def unknown_if_it_fails(destination: str) -> Iterator[None]:
    """`CommitStateUnknownError` if a request to the store fails: the log may be changed by then."""
    try:
        yield
    except OSError as e:
        raise CommitStateUnknownError(
            f"{e.filename or destination}: {e.strerror or e}",
            "no file without proof was removed: fix that and run the same command to finish",
        ) from e


def _remove(
    store: StoreOperations,
    table: TablePlaces,
    definition: TableDefinition,
    one: Logged,
    version: int,
    now_milliseconds: int,
    waiting: Waiting,
) -> Removal:
    """Remove the new files of a claim that was given up at `version`; those of an import stay."""
    if one.claim.is_import:
        return Removal()
    claims = [other.claim for other in one.others] + [one.claim]
    files = {file.p: file for claim in claims for file in files_of(store, table, claim, claim.files)}
    try:
        return remove_orphans(store, table, definition, [*files.values()], now_milliseconds, waiting)
    except CommitConflictError as e:
        url = shown_url(store.spec, table.destination)
        raise CommitConflictError(
            f"{e.what}. The claim of job {one.claim.job_id} is given up (version {version})",
            f"its new files were not removed: remove them later with: ray-committer table scan {url} "
            f"--remove-orphans",
        ) from e
