"""Commits on a Ray cluster of three raylets: scale, lost workers, exclusion, starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import ray

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import (
    CommitStateUnknownError,
    CommitterBusyError,
    LeaseLostError,
    RayNotAvailableError,
)
from ray_committer.events import Event, FilesRenamed, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.ray import cluster
from ray_committer.executors.ray.host import HostedLimit
from ray_committer.executors.ray.pool import WorkerPool
from ray_committer.executors.ray.pool_job import PoolJob
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.report.text import stage_seconds
from ray_committer.stages.publish_job import prove_same_store
from ray_committer.stores.base import StoreSpec
from ray_committer.work.worker import Worker, WorkerSpec
from tests.doubles import recorded
from tests.integration.ray.jobs import commit_workers, write_files

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("ray_cluster")]


def driver_peak(dest: Path, pool: CommitPool, *, files: int) -> tuple[dict[str, str], int]:
    """Commit on Ray; what was written, and the driver's peak of new memory in bytes."""
    written = write_files(dest, tasks=100, files=files)
    tracemalloc.start()
    try:
        report = ray_committer.commit_job(str(dest), executor=pool)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (report.moved, report.manifests, report.proved) == (files, 100, {})
    return written, peak


@pytest.mark.timeout(300)
def test_thousands_of_files_arrive_once_each_and_the_driver_holds_none(tmp_path: Path, dest: Path, tree):
    with ray_committer.commit_pool(CommitOptions(workers=3)) as pool:
        driver_peak(tmp_path / "warm-up", pool, files=300)
        _, small = driver_peak(tmp_path / "small", pool, files=1_000)
        written, large = driver_peak(dest, pool, files=7_000)
        # What other threads of this process allocate meanwhile is measured, too: the least of two.
        if (large - small) / 6_000 >= 64:
            _, large = driver_peak(tmp_path / "large", pool, files=7_000)
    assert tree() == written
    assert not (dest / "_temporary").exists()
    # Eight bytes a file for the duplicate check, and copies of them while that is sorted; an entry
    # held as an object would be about 600.
    assert (large - small) / 6_000 < 64


def test_a_worker_that_was_replaced_gets_no_permit(dest: Path):
    """It may live on behind a partition, where nobody can end it."""
    options = CommitOptions(workers=1)
    pool = WorkerPool(options, 1)
    limit = HostedLimit(pool.host.actor, "commit", options)
    try:
        spec = WorkerSpec(StoreSpec("file"), new_job_attempt(str(dest), "job_1", 0), concurrency=1)
        job = PoolJob(pool, "commit", spec, limit, ignore)
        job.start()
        assert limit.grant("worker-commit-0", 0).requests is None
        os.kill(commit_workers()[0], signal.SIGKILL)
        assert list(job.run(getattr, ["in_driver"])) == [False]
        with pytest.raises(LeaseLostError, match="worker-commit-0 was taken for lost and replaced"):
            limit.grant("worker-commit-0", 0)
        assert limit.grant("worker-commit-1", 0).requests is None
    finally:
        pool.close()


@pytest.fixture
def pool_job(dest: Path) -> Iterator[PoolJob]:
    """A commit on two ready workers."""
    options = CommitOptions(workers=2)
    pool = WorkerPool(options, 2)
    try:
        limit = HostedLimit(pool.host.actor, "commit", options)
        spec = WorkerSpec(StoreSpec("file"), new_job_attempt(str(dest), "job_1", 0), concurrency=1)
        job = PoolJob(pool, "commit", spec, limit, ignore)
        job.start()
        yield job
    finally:
        pool.close()


def test_long_work_does_not_hold_up_other_work(pool_job: PoolJob, tmp_path: Path):
    def wait_for(_: object, file: str) -> bool:
        deadline = time.monotonic() + 10
        while not (is_there := Path(file).exists()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return is_there

    end = tmp_path / "end"
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(lambda: list(pool_job.run(wait_for, [str(end)] * 4)))
        time.sleep(0.5)  # until the workers have all of it
        assert list(pool_job.run(getattr, ["in_driver"] * 20)) == [False] * 20
        assert not long.done()
        end.touch()
        assert long.result() == [True] * 4


def test_each_request_of_a_worker_is_counted(pool_job: PoolJob, dest: Path):
    def ask(worker: Worker, path: str) -> None:
        worker.store.list_status(path)

    dest.mkdir(exist_ok=True)
    before = pool_job.requests
    list(pool_job.run(ask, [str(dest)] * 50))
    assert pool_job.requests == before + 50


@pytest.mark.timeout(180)
def test_work_at_once_loses_nothing_on_workers_that_are_replaced(pool_job: PoolJob, tmp_path: Path):
    """And each runs only where the check of workers, which takes long here, has passed."""

    def check(_: object, directory: str) -> None:
        time.sleep(0.3)
        Path(directory, str(os.getpid())).touch()

    def work(_: object, item: tuple[str, int]) -> tuple[int, bool]:
        time.sleep(0.02)
        directory, number = item
        return number, Path(directory, str(os.getpid())).exists()

    pool_job.admit(check, str(tmp_path))
    items = [(str(tmp_path), number) for number in range(600)]
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(lambda: sorted(pool_job.run(work, items))) for _ in range(4)]
        killed: set[int] = set()
        for _ in range(3):
            while len(alive := set(commit_workers()) - killed) < 2:
                time.sleep(0.05)
            killed.add(worker := alive.pop())
            os.kill(worker, signal.SIGKILL)
        assert [run.result() for run in runs] == [[(number, True) for _, number in items]] * 4


@pytest.mark.parametrize("executor", [pytest.param("ray", marks=pytest.mark.wide), "threads"])
def test_a_second_commit_of_the_same_job_that_may_not_wait_is_refused(dest: Path, tree, executor: str):
    text = f"process {os.getpid()} on .* is committing"
    written = write_files(dest, tasks=2, files=400)
    refusals: list[CommitterBusyError] = []
    impatient = CommitOptions(conflict_wait_seconds=0.1)

    def try_second(event: Event) -> None:
        if isinstance(event, FilesRenamed) and not refusals:
            with pytest.raises(CommitterBusyError, match=text) as caught:
                ray_committer.commit_job(str(dest), "job_1", executor=executor, options=impatient)
            refusals.append(caught.value)

    ray_committer.commit_job(
        str(dest), executor="ray", options=CommitOptions(workers=1), on_event=try_second
    )
    assert len(refusals) == 1
    assert refusals[0].exit_code == 4
    assert tree() == written


def test_a_second_commit_of_the_same_job_waits_for_the_first_in_the_same_cluster(dest: Path, tree):
    written = write_files(dest, tasks=4, files=500)
    with ThreadPoolExecutor() as pool:
        commit = partial(ray_committer.commit_job, str(dest), "job_1", executor="ray")
        one = CommitOptions(workers=1)
        reports = list(pool.map(lambda _: commit(options=one), range(2)))
    assert {report.outcome for report in reports} <= {Outcome.COMMITTED, Outcome.ALREADY_COMMITTED}
    assert sum(report.moved for report in reports) == len(written)
    assert tree() == written
    (report,) = (report for report in reports if report.outcome is Outcome.COMMITTED)
    # Starting Ray is not between the stages, which add up to the time of the run.
    *stages, (_, other), (_, total) = stage_seconds(report)
    assert {"connect_ray", "start_workers"} <= {name for name, _ in stages}
    assert sum(seconds for _, seconds in stages) + other == pytest.approx(total)
    assert report.versions["Ray"] == ray.__version__


@pytest.mark.usefixtures("small_shards")
def test_a_cancelled_commit_on_ray_is_finished_later(dest: Path, tree):
    written = write_files(dest, tasks=4, files=1_000)
    token = ray_committer.CancelToken()

    def cancel(event: Event) -> None:
        if isinstance(event, FilesRenamed):
            token.cancel()

    with pytest.raises(ray_committer.errors.CommitCancelledError):
        ray_committer.commit_job(
            str(dest),
            executor="ray",
            options=CommitOptions(workers=2),
            on_event=cancel,
            cancel=token,
        )
    assert 0 < len(tree()) < 1_000
    assert ray.is_initialized()  # nobody shuts down a Ray that it did not start
    ray_committer.commit_job(str(dest), executor="threads")
    assert tree() == written


@pytest.mark.wide
def test_workers_that_do_not_start_are_a_clear_error_before_anything_moves(
    dest: Path, tree, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster, "WORKER_START_SECONDS", 6.0)
    write_files(dest, tasks=1, files=10)
    options = CommitOptions(worker_cpus=2.0, workers=50)
    with pytest.raises(RayNotAvailableError, match=r"(50 commit workers|not) start(ed)? within 6 s"):
        ray_committer.commit_job(str(dest), executor="ray", options=options)
    assert tree() == {}
    assert ray_committer.list_jobs(str(dest))[0].state == "running"
    ray_committer.commit_job(str(dest), executor="threads")
    assert len(tree()) == 10


def test_a_node_with_another_tree_is_found_before_anything_moves(dest: Path, store, write_job):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    elsewhere = WorkerSpec(store.spec, job, 1)(Permits(RateLimit(), "here", is_here=True))
    nonce = recorded(store, job).nonce
    prove_same_store(elsewhere, nonce)
    with pytest.raises(CommitStateUnknownError, match="cannot be read on a worker's node"):
        prove_same_store(elsewhere, "the nonce of another record")


def test_no_ray_is_started(dest: Path, write_job):
    """If there is none; on this machine is one, so the process is told that there is not."""
    write_job({0: {"a": "x"}})
    code = (
        "import ray, ray_committer as rc, sys\n"
        "def init(address, **_):\n"
        "    print('asked', address)\n"
        "    raise ConnectionError\n"
        "ray.init = init\n"
        "try: rc.commit_job(sys.argv[1], executor='ray')\n"
        "except rc.errors.RayNotAvailableError as e: print('refused:', e)\n"
        "print(ray.is_initialized())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(dest)], capture_output=True, text=True, check=True
    )
    asked, refused, is_started = result.stdout.splitlines()
    assert (asked, is_started) == ("asked auto", "False")
    assert "no Ray cluster runs on this machine; call ray.init() before the commit" in refused
