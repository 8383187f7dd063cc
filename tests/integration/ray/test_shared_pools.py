"""One pool of commit workers for several drivers of a cluster, which may come, go and be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import RayNotAvailableError
from ray_committer.events import Event, FilesRenamed
from ray_committer.executors.base import Readiness
from ray_committer.executors.ray import shared_pool
from ray_committer.executors.ray.cluster import NAMESPACE
from ray_committer.executors.ray.executor import RayPool
from ray_committer.executors.ray.shared_host import host_name, worker_name
from tests.conftest import visible_files
from tests.integration.ray.jobs import write_files

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("ray_cluster"),
]

OPTIONS = CommitOptions(workers=3, worker_cpus=0.1)
# A driver: it joins a pool, commits a job, says by which processes, and waits to be told to leave.
DRIVER = """
import os, sys, ray, ray_committer as rc
ray.init(address=sys.argv[1], namespace=sys.argv[2], log_to_driver=False)
options = rc.CommitOptions(workers=7, worker_cpus=0.1)
with rc.commit_pool(options, name=sys.argv[3], shared=True) as pool:
    report = rc.commit_job(sys.argv[4], executor=pool, options=options)
    print(report.outcome.value, sorted({row.process for row in report.worker_rows}), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def short_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pool, "IDLE_SECONDS", 1.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A pool's name for one test, which must not leave anything of it."""
    pool = f"pool of {request.node.name}"
    yield pool
    until(lambda: not actors(pool))


@contextlib.contextmanager
def joined(name: str, options: CommitOptions = OPTIONS) -> Iterator[RayPool]:
    with ray_committer.commit_pool(options, name=name, shared=True) as pool:
        assert isinstance(pool, RayPool)
        yield pool


@contextlib.contextmanager
def driver(name: str, dest: Path) -> Iterator[subprocess.Popen[str]]:
    """Another driver, in another namespace of Ray."""
    address = ray.get_runtime_context().gcs_address
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, "another", name, str(dest)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def actors(name: str, most: int = 20) -> list[str]:
    """What of a pool is there by name."""
    wanted = {host_name(name), *(worker_name(name, number) for number in range(most))}
    listed = ray.util.list_named_actors(all_namespaces=True)
    return sorted(
        one["name"] for one in listed if one["name"] in wanted and one["namespace"] == NAMESPACE
    )


def until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def pids(pool: RayPool) -> list[int]:
    ask = [worker.actor.__ray_call__.remote(lambda _: os.getpid()) for worker in pool.pool.workers]
    return sorted(ray.get(ask))


def kill(actor: object) -> None:
    os.kill(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)  # type: ignore[attr-defined]


@pytest.mark.wide
def test_two_drivers_share_the_workers_that_the_first_has_started(name: str, tmp_path: Path):
    dests = [tmp_path / "here", tmp_path / "there"]
    written = [write_files(dest, tasks=4, files=400) for dest in dests]
    with joined(name) as pool:
        own = pids(pool)
        with driver(name, dests[1]) as other:
            said = other.stdout.readline()  # type: ignore[union-attr]
            report = ray_committer.commit_job(str(dests[0]), executor=pool, options=OPTIONS)
            other.communicate("leave\n", timeout=60)
        assert len(own) == 3
        assert said.strip() == f"{Outcome.COMMITTED.value} {own}"
        assert report.outcome is Outcome.COMMITTED
        assert pids(pool) == own
    assert [visible_files(dest) for dest in dests] == written


@pytest.mark.wide
def test_a_pool_outlives_the_driver_that_has_started_it_and_ends_when_it_is_idle(name: str, dest: Path):
    written = write_files(dest, tasks=4, files=400)
    with joined(name) as first:
        own = pids(first)
        second = ray_committer.commit_pool(OPTIONS, name=name, shared=True)
        pool = second.__enter__()
    assert isinstance(pool, RayPool)
    time.sleep(2.0)  # twice as long as it may be idle
    assert pids(pool) == own
    ray_committer.commit_job(str(dest), executor=pool, options=OPTIONS)
    second.__exit__(None, None, None)
    until(lambda: not actors(name))
    assert visible_files(dest) == written


@pytest.mark.wide
def test_a_pool_that_has_just_ended_is_started_again_by_the_next_driver(name: str, tmp_path: Path):
    for number in range(3):
        dest = tmp_path / str(number)
        written = write_files(dest, tasks=2, files=40)
        with joined(name) as pool:
            ray_committer.commit_job(str(dest), executor=pool, options=OPTIONS)
        assert visible_files(dest) == written
        time.sleep(1.2 + 0.4 * number)  # about when it ends


@pytest.mark.wide
def test_a_driver_that_is_killed_leaves_nothing_and_hinders_nobody(name: str, tmp_path: Path):
    dests = [tmp_path / "here", tmp_path / "there"]
    written = [write_files(dest, tasks=20, files=4_000) for dest in dests]
    with joined(name) as pool:
        with driver(name, dests[1]) as other:
            until(lambda: any(dests[1].glob("p=*/*")))
            other.kill()
        ray_committer.commit_job(str(dests[0]), executor=pool, options=OPTIONS)
        until(lambda: sum(map(len, held(pool))) == 0)
        report = ray_committer.commit_job(str(dests[1]), executor=pool, options=OPTIONS)
        assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
    assert [visible_files(dest) for dest in dests] == written


def held(pool: RayPool) -> list[list[str]]:
    """The commits for which each worker holds something."""
    ask = [
        worker.actor.__ray_call__.remote(lambda worker: list(worker._resources))
        for worker in pool.pool.workers
    ]
    return ray.get(ask)


@pytest.mark.wide
@pytest.mark.parametrize("which", ["host", "worker"])
def test_a_process_of_the_pool_that_is_lost_comes_back_for_all_drivers(
    name: str, which: str, tmp_path: Path
):
    dests = [tmp_path / str(number) for number in range(3)]
    written = [write_files(dest, tasks=10, files=2_000) for dest in dests]
    with joined(name) as pool, joined(name) as second:
        actor = pool.pool.host.actor if which == "host" else pool.pool.workers[0].actor
        killed: list[Event] = []

        def interfere(event: Event) -> None:
            if isinstance(event, FilesRenamed) and event.done > 500 and not killed:
                killed.append(event)
                kill(actor)

        ray_committer.commit_job(str(dests[0]), executor=pool, options=OPTIONS, on_event=interfere)
        ray_committer.commit_job(str(dests[1]), executor=second, options=OPTIONS)
        ray_committer.commit_job(str(dests[2]), executor=pool, options=OPTIONS)
        assert killed
        until(lambda: pids(pool) == pids(second))
        assert len(pids(pool)) == 3
    assert [visible_files(dest) for dest in dests] == written


@pytest.mark.wide
def test_the_commits_of_a_pool_have_one_limit_and_each_its_own_count(name: str, tmp_path: Path):
    limited = CommitOptions(workers=3, worker_cpus=0.1, max_requests_per_second=100)
    dests = [tmp_path / "here", tmp_path / "there"]
    for dest in dests:
        write_files(dest, tasks=2, files=150)
    with joined(name, limited) as pool, driver(name, dests[1]) as other:
        begun = time.monotonic()
        report = ray_committer.commit_job(str(dests[0]), executor=pool)
        said = other.stdout.readline()  # type: ignore[union-attr]
        seconds = time.monotonic() - begun
        other.communicate("leave\n", timeout=60)
    assert said.startswith(Outcome.COMMITTED.value)
    assert 150 <= report.requests < 300
    assert seconds > 2 * 150 / 100


def test_an_answer_that_is_older_than_a_replacement_starts_no_lost_worker_again(name: str):
    with joined(name) as pool:
        shared = pool.pool
        assert isinstance(shared, shared_pool.SharedWorkerPool)
        before = [worker.number for worker in shared.workers]
        shared.replace(shared.workers[0], RuntimeError("simulated"))
        after = [worker.number for worker in shared.workers]
        shared._meet(before, before)
        assert [worker.number for worker in shared.workers] == after != before


def test_a_pool_of_another_version_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch):
    with joined(name):
        monkeypatch.setattr(shared_pool, "__version__", "0.0.9")
        with (
            pytest.raises(RayNotAvailableError, match=f"{name} was started by ray-committer"),
            joined(name),
        ):
            pass


@pytest.mark.wide
def test_a_pool_with_fewer_workers_than_its_driver_would_start_says_so(name: str):
    """As one does that was started before the cluster has grown."""
    with joined(name), joined(name, CommitOptions(workers=4, worker_cpus=0.1)) as second:
        while (found := second.readiness()) is not Readiness.TOO_FEW:
            assert found is Readiness.STARTING
