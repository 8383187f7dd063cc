"""Find the directories of jobs that were taken away and are not deleted yet.

Their names show nothing: only the state in each shows which job it was, and how that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ray_committer.errors import LinkedPathError
from ray_committer.job_files.find_job import list_temporary, refuse_links
from ray_committer.protocol.paths import (
    GONE_PREFIX,
    JobAttempt,
    new_job_attempt,
)
from ray_committer.protocol.record import decode_claim
from ray_committer.protocol.state import SUFFIX, JobState, Phase, parse_token
from ray_committer.stores.base import StoreOperations


def list_gone(store: StoreOperations, destination: str) -> list[JobAttempt]:
    """The directories that were taken away and are not deleted yet."""
    return gone_in(destination, list_temporary(store, destination).directories)


def gone_in(destination: str, directories: Iterable[str]) -> list[JobAttempt]:
    """The directories among these, below ``$destination/_temporary``, that were taken away; only their
    content shows which job they belong to."""
    names = (directory.rpartition("/")[2] for directory in directories)
    nonces = (name.removeprefix(GONE_PREFIX) for name in names if name.startswith(GONE_PREFIX))
    return [new_job_attempt(destination, GONE_PREFIX + nonce, 0).gone(nonce) for nonce in nonces]


def find_gone(store: StoreOperations, job: JobAttempt, stamp: str) -> JobState | None:
    """The state in which the job with this `stamp` was taken away, if it is not deleted yet."""
    found = (_state_if_told(store, gone) for gone in list_gone(store, job.destination))
    return next((state for state in found if state is not None and state.stamp == stamp), None)


def is_gone_committed(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether a committed job of this id and attempt was taken away and is not deleted yet."""
    for gone in list_gone(store, job.destination):
        state = _state_if_told(store, gone)
        if state is None or state.phase is not Phase.COMMITTED:
            continue
        path = gone.content(state.record or "")
        with suppress(FileNotFoundError, PermissionError):
            claim = decode_claim(store.read(path), path)
            if (claim.job_id, claim.job_attempt) == (job.job_id, job.number):
                return True
    return False


def has_content(store: StoreOperations, job: JobAttempt, nonce: str) -> bool:
    """Whether the file that belongs to a state of the job exists, where the job was set up or where it
    was taken away to."""
    if store.get_status(job.content(nonce)) is not None:
        return True
    for gone in list_gone(store, job.destination):
        with suppress(PermissionError):
            if store.get_status(gone.content(nonce)) is not None:
                return True
    return False


def state_inside(store: StoreOperations, gone: JobAttempt) -> JobState | None:
    """The state of what was taken away, which no longer changes; None if it is partly deleted."""
    refuse_links(store, (gone.directory, gone.state))
    try:
        listed = store.list_anew(gone.state)
    except FileNotFoundError:
        return None
    tokens = [one.name for one in listed if one.name.endswith(SUFFIX)]
    return parse_token(tokens[0], gone.state) if tokens else None


def _state_if_told(store: StoreOperations, gone: JobAttempt) -> JobState | None:
    """`state_inside`, but None if there is no permission to read it, or it is behind a link."""
    with suppress(PermissionError, LinkedPathError):
        return state_inside(store, gone)
    return None
