"""A whole job on Ray: each worker opens the bucket by its description, on another node."""

from __future__ import annotations

import os
import signal

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, FilesRenamed
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.testing import visible_files
from tests.integration.gcs.jobs import write_hadoop_job
from tests.integration.gcs.test_gcs_faults import is_move
from tests.integration.ray.jobs import commit_workers
from tests.integration.store_jobs import all_of, tasks_of
from tests.servers.gcs import GcsServer
from tests.servers.proxy import Fault, Harm, Throttle

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("ray_cluster")]


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("small_shards")
def test_a_killed_worker_and_lost_answers_lose_nothing(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt
):
    tasks = tasks_of(400, tasks=5)
    write_hadoop_job(store, job, tasks)
    killed: list[int] = []

    def kill_one(event: Event) -> None:
        if isinstance(event, FilesRenamed) and not killed:
            killed.append(commit_workers()[0])
            os.kill(killed[0], signal.SIGKILL)

    with server.proxy.faulty(Fault(Harm.LOSE, is_move, 0.05)):
        report = ray_committer.commit_job(
            f"gs://{bucket}{job.destination}",
            executor="ray",
            options=CommitOptions(workers=2),
            storage_options=server.storage_options,
            on_event=kill_one,
        )
    assert len(killed) == 1
    assert killed[0] in {one.process for one in report.lost_workers}
    # On a busy machine Ray may call a second one unavailable, which is replaced as if it were dead.
    lost = len(report.lost_workers)
    text = "1 worker was" if lost == 1 else f"{lost} workers were"
    assert report.findings[0].startswith(f"{text} lost and replaced: worker ")
    assert sum(row.files for row in report.worker_rows) == 400
    assert sum(int(line.split()[0]) for line in report.findings if "found done" in line) == sum(
        report.proved.values()
    )
    assert report.moved + sum(report.proved.values()) == 400
    assert report.proved
    assert visible_files(store, job.destination) == all_of(tasks)


@pytest.mark.wide
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("small_shards")
def test_throttling_of_all_workers_is_told_with_its_time_and_the_limit(
    server: GcsServer, bucket: str, store: GcsStore, job: JobAttempt
):
    tasks = tasks_of(300, tasks=5)
    write_hadoop_job(store, job, tasks)
    server.proxy.reset()
    server.proxy.throttle = Throttle(100, 429, None, burst=20)
    report = ray_committer.commit_job(
        f"gs://{bucket}{job.destination}",
        executor="ray",
        options=CommitOptions(workers=2),
        storage_options=server.storage_options,
    )
    server.proxy.throttle = None
    refused = server.proxy.counts["throttled"]
    assert report.throttled > 0
    # Some are refused before so many are that the store is taken to throttle.
    assert 0 < sum(span.refused for span in report.throttled_spans) <= report.throttled <= refused
    assert all(0 < span.began <= span.last <= report.seconds for span in report.throttled_spans)
    assert all(span.lowest < span.before for span in report.throttled_spans)
    assert report.findings[0].startswith("The store throttled from ")
    assert {row.worker for row in report.worker_rows} == {"worker 0", "worker 1"}
    assert len({row.process for row in report.worker_rows}) == 2
