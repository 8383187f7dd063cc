"""Every worker on another node proves that it sees the destination's store before it moves a file."""

from __future__ import annotations

import errno

import pytest

from ray_committer.errors import CommitStateUnknownError
from ray_committer.options import CommitOptions
from ray_committer.permits import Permits
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.ratelimit import RateLimit
from ray_committer.stages.commit_job import _prove_same_store
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)

JOB = new_job_attempt("/bucket/table", "job_1", 0)
NONCE = "nonce-of-the-test"


def recorded(identity: Identity = Identity.ETAG, nonce: str = NONCE) -> MemoryStore:
    """A remote store with a job whose commit has written its record, and no more."""
    store = MemoryStore(identity=identity, real_directories=identity is Identity.ETAG)
    store.mkdirs("/bucket")
    write_job(store, JOB, {0: {"p=1/a": b"x"}})

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1] == JOB.commit_record:
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=crash), JOB, CommitOptions(), nonce=nonce)
    return store


def worker(store: StoreOperations, job: JobAttempt = JOB, *, in_driver: bool = False) -> Worker:
    found = Worker(store, job, in_driver=in_driver, retry_seconds=0.0)
    found.guard(Permits(RateLimit(), "worker", is_here=True))
    return found


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION])
def test_a_worker_that_reads_the_record_is_admitted(identity: Identity):
    _prove_same_store(worker(recorded(identity)), NONCE)


def test_so_is_one_that_comes_when_the_record_is_the_commit_point():
    store = recorded()
    store.rename(JOB.commit_record, JOB.commit_point)
    _prove_same_store(worker(store), NONCE)


def test_a_worker_with_another_store_is_refused():
    with pytest.raises(CommitStateUnknownError, match="cannot be read on a worker's node"):
        _prove_same_store(worker(MemoryStore()), NONCE)


def test_a_worker_with_the_same_job_on_another_store_is_refused():
    with pytest.raises(CommitStateUnknownError, match="is another file on a worker's node"):
        _prove_same_store(worker(recorded(nonce="of another commit")), NONCE)


def test_a_worker_without_the_right_to_read_is_refused():
    def forbid(call: StoreCall) -> None:
        raise PermissionError(errno.EACCES, "forbidden", call.paths[0])

    with pytest.raises(CommitStateUnknownError, match="with the same rights"):
        _prove_same_store(worker(WrappedStore(recorded(), before=forbid)), NONCE)


def test_the_drivers_own_worker_need_not_prove_anything():
    _prove_same_store(worker(MemoryStore(), in_driver=True), NONCE)
