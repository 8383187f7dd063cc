"""Every worker on another node proves that it sees the destination's store before it moves a file."""

from __future__ import annotations

import errno

import pytest

from ray_committer.errors import CommitStateUnknownError
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.publish_job import prove_same_store
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
from ray_committer.work.worker import Worker
from tests.doubles import phase_of, recorded
from tests.stages.support import at

JOB = new_job_attempt("/bucket/table", "job_1", 0)


def begun(identity: Identity = Identity.ETAG) -> tuple[MemoryStore, str]:
    """A remote store with a job whose commit is recorded, and no more; and the record's nonce."""
    store = MemoryStore(identity=identity, real_directories=identity is Identity.ETAG)
    store.mkdirs("/bucket")
    write_job(store, JOB, {0: {"p=1/a": b"x"}})
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=at("advance", SimulatedCrash(), "recorded")), JOB)
    return store, recorded(store, JOB).nonce


def worker(store: StoreOperations, job: JobAttempt = JOB, *, in_driver: bool = False) -> Worker:
    permits = Permits(RateLimit(), "worker", is_here=True)
    return Worker(store, job, permits, in_driver=in_driver, retry_seconds=0.0)


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION])
def test_a_worker_that_finds_the_record_is_admitted(identity: Identity):
    store, nonce = begun(identity)
    prove_same_store(worker(store), nonce)


def test_so_is_one_that_comes_when_the_job_is_committed():
    store, nonce = begun()
    run_commit(store, JOB, CommitOptions(cleanup=False))
    assert phase_of(store, JOB) is Phase.COMMITTED
    prove_same_store(worker(store), nonce)


def test_so_is_one_that_comes_when_the_job_was_taken_away():
    store, nonce = begun()
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=at("delete_directory", SimulatedCrash())), JOB)
    assert not store.list_files(JOB.directory)
    prove_same_store(worker(store), nonce)
    with pytest.raises(CommitStateUnknownError, match="cannot be read on a worker's node"):
        prove_same_store(worker(store), "the nonce of another record")


def test_a_worker_with_another_store_is_refused():
    with pytest.raises(CommitStateUnknownError, match="cannot be read on a worker's node"):
        prove_same_store(worker(MemoryStore()), "nonce")


def test_a_worker_with_the_same_job_on_another_store_is_refused():
    (_, here), (there, _) = begun(), begun()
    with pytest.raises(CommitStateUnknownError, match="cannot be read on a worker's node"):
        prove_same_store(worker(there), here)


def test_a_worker_proves_it_by_one_request_however_long_the_record_is():
    store, nonce = begun()
    calls: list[StoreCall] = []
    prove_same_store(worker(WrappedStore(store, before=calls.append)), nonce)
    assert [call.operation for call in calls] == ["get_status"]


def test_a_worker_without_the_right_to_read_is_refused():
    store, nonce = begun()
    forbidding = WrappedStore(store, before=at("get_status", PermissionError(errno.EACCES, "forbidden")))
    with pytest.raises(CommitStateUnknownError, match="with the same permissions"):
        prove_same_store(worker(forbidding), nonce)


def test_the_drivers_own_worker_need_not_prove_anything():
    prove_same_store(worker(MemoryStore(), in_driver=True), "nonce")
