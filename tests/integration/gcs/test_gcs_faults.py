"""Whole commits on a server that loses requests and answers, or bears only so many a second."""

from __future__ import annotations

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.recovery import Proof
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.testing import visible_files
from tests.integration.gcs.conftest import RENAMES
from tests.integration.gcs.jobs import write_hadoop_job
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.gcs import GcsServer
from tests.servers.proxy import Fault, Harm, Request, Throttle

pytestmark = pytest.mark.xdist_group("gcs")

CAP = 60
CAPPED_FILES = 400


def is_move(request: Request) -> bool:
    return "/moveTo/o/" in request.path


def commit(server: GcsServer, bucket: str, job: JobAttempt, options: CommitOptions):
    return ray_committer.commit_job(
        f"gs://{bucket}{job.destination}",
        job.job_id,
        executor="threads",
        options=options,
        storage_options=server.storage_options,
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("write", [write_job, write_hadoop_job])
def test_no_file_is_lost_or_doubled_when_one_request_in_eight_fails(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt, write
):
    tasks = tasks_of(RENAMES)
    write(store, job, tasks)
    # Each rate is of what the faults before it let pass; together 13 %, half of it lost answers.
    faults = [
        Fault(Harm.LOSE, is_move, 0.065),
        Fault(Harm.CUT, is_move, 0.023),
        Fault(Harm.REFUSE, is_move, 0.023),
        Fault(Harm.FAIL, is_move, 0.024),
    ]
    with server.proxy.faulty(*faults):
        report = commit(server, bucket, job, CommitOptions(threads=16))
    harmed = {harm: server.proxy.counts[harm] for harm in Harm if server.proxy.counts[harm]}
    print(f"{RENAMES} files, {harmed}, moved {report.moved}, proved {report.proved}")
    assert report.outcome is Outcome.COMMITTED
    assert report.moved + sum(report.proved.values()) == RENAMES
    assert set(report.proved) == {Proof.ETAG}
    assert report.proved[Proof.ETAG] >= 0.03 * RENAMES
    assert sum(harmed.values()) >= 0.08 * RENAMES
    assert visible_files(store, job.destination) == all_of(tasks)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("status", "retry_after"),
    [
        pytest.param(429, None, id="429", marks=pytest.mark.wide),
        pytest.param(503, "1", id="503 with Retry-After"),
    ],
)
def test_a_commit_loses_nothing_on_a_store_that_throttles(
    server: GcsServer,
    bucket: str,
    store: GcsStore,
    job: JobAttempt,
    status: int,
    retry_after: str | None,
):
    tasks = tasks_of(CAPPED_FILES)
    write_job(store, job, tasks)
    server.proxy.reset()
    server.proxy.throttle = Throttle(CAP, status, retry_after, burst=CAP)
    report = commit(server, bucket, job, CommitOptions(threads=16))
    server.proxy.throttle = None
    counts = server.proxy.counts
    print(counts, report.findings)
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, CAPPED_FILES)
    assert counts["throttled"] > 0
    assert visible_files(store, job.destination) == all_of(tasks)
