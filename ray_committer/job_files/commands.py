"""The commands that messages tell people to run, with the destination as a URL, ready to be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.listing import list_attempts
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import shown_url

UNDO = ("abort", "--undo")
ENDS: Mapping[Phase | None, tuple[str, ...]] = {
    Phase.RECORDED: ("commit",),
    Phase.SEALED: ("commit",),
    Phase.COMMITTED: ("commit",),
    Phase.UNDOING: UNDO,
    Phase.ABORTED: ("abort",),
}
"""The command, with its options, that finishes what was begun of a job in each of these states."""


def commit_command(store: StoreOperations, job: JobAttempt, allowed_roots: Sequence[str] = ()) -> str:
    """The command that finishes the commit of `job`, which can also write to `allowed_roots`."""
    return _command("commit", [], store, job, allowed_roots)


def abort_command(
    store: StoreOperations, job: JobAttempt, allowed_roots: Sequence[str] = (), *, undo: bool = False
) -> str:
    """The command that finishes the abort of `job`, or its `undo`, also in `allowed_roots`."""
    return _command("abort", ["--undo"] if undo else [], store, job, allowed_roots)


def _command(
    verb: str, options: list[str], store: StoreOperations, job: JobAttempt, roots: Sequence[str]
) -> str:
    dest, *allowed = [shown_url(store.spec, path) for path in (job.destination, *roots)]
    options += [word for url in allowed for word in ("--allowed-root", url)]
    return job_command(verb, dest, job, name_attempt=is_beside_others(store, job), options=options)


def job_command(
    verb: str, dest: str, job: JobAttempt, *, name_attempt: bool = False, options: Sequence[str] = ()
) -> str:
    """A command for one job at `dest`, quoted for a shell and without a password; with `name_attempt` it
    also names the first attempt, as it must beside others."""
    words = ["ray-committer", verb, without_password(dest), "--job-id", job.job_id]
    if name_attempt or job.number:
        words += ["--attempt", str(job.number)]
    return shlex.join([*words, *options])


def is_beside_others(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether the job has, or may have, other attempts; costs a listing."""
    try:
        return any(attempt.number != job.number for attempt in list_attempts(store, job))
    except (OSError, RayCommitterError):
        return True


def resolve_command(store: StoreOperations, destination: str, claim: TableClaim) -> str:
    """The command that ends the claim of a job that is gone."""
    words = ["table", "resolve", shown_url(store.spec, destination), claim.job_id]
    attempt = ["--attempt", str(claim.job_attempt)] if claim.job_attempt else []
    return shlex.join(["ray-committer", *words, *attempt])


def vacuum_command(store: StoreOperations, destination: str) -> str:
    """The command that removes what dead jobs have left."""
    return shlex.join(["ray-committer", "vacuum", shown_url(store.spec, destination)])


def export_command(store: StoreOperations, destination: str) -> str:
    """The command that exports a table as a Delta table."""
    return shlex.join(["ray-committer", "table", "export-delta", shown_url(store.spec, destination)])
