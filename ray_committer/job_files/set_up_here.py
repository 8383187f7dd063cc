"""The jobs that this process has set up: its commit of one need not look for what is known.

A state that has changed since then does no harm: a change consumes the state that it names, so it fails,
and the commit then reads the job (D1). Of the other attempts of the job it learns once it has declared
itself (D8). Only its manifests and its directory are moved by name. So a job is remembered only if its
id was drawn for it: nobody sets up a second job with such an id.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from uuid import UUID

from ray_committer.job_files.job_state import Seen
from ray_committer.job_files.owners import owner_of
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Claim, Declaration
from ray_committer.protocol.state import new_nonce
from ray_committer.stores.base import StoreOperations, StoreSpec

MOST_JOBS = 64


@dataclass(frozen=True, slots=True)
class SetUpHere:
    """The first state of a job that was set up here, and a declaration that its commit can use."""

    first: Seen
    prepared: Declaration | None = None


_Key = tuple[int, StoreSpec, JobAttempt]
_jobs: dict[_Key, SetUpHere] = {}
_lock = threading.Lock()


def is_random(job_id: str) -> bool:
    """Whether an id is a random UUID, as Spark draws one for each write."""
    try:
        return str(UUID(job_id, version=4)) == job_id
    except ValueError:
        return False


def remember(
    store: StoreOperations, job: JobAttempt, first: Seen, prepared: Declaration | None = None
) -> None:
    """Remember how this process has set a job up; only the last `MOST_JOBS` are kept."""
    with _lock:
        _jobs[os.getpid(), store.spec, job] = SetUpHere(first, prepared)
        while len(_jobs) > MOST_JOBS:
            del _jobs[next(iter(_jobs))]


def take(
    store: StoreOperations, destination: str, job_id: str | None, number: int | None
) -> tuple[JobAttempt, SetUpHere] | None:
    """The one attempt of a job that this process has set up; it is then forgotten, so that any later
    call looks at the store. None for several attempts, or if it was set up elsewhere."""
    # Not by a process that was forked since: two processes would have one memory.
    known = (os.getpid(), store.spec, destination, job_id)
    with _lock:
        keys = [
            key
            for key in _jobs
            if (*key[:2], key[2].destination, key[2].job_id) == known and number in (None, key[2].number)
        ]
        return (keys[0][2], _jobs.pop(keys[0])) if len(keys) == 1 else None


def new_declaration(
    job: JobAttempt, claim: Claim, run: str, run_id: str | None, now_milliseconds: int
) -> Declaration:
    """What a run of this process declares."""
    return Declaration(
        nonce=new_nonce(),
        job_id=job.job_id,
        job_attempt=job.number,
        created_milliseconds=now_milliseconds,
        owner=owner_of(run),
        claim=claim,
        run_id=run_id,
    )
