"""Workers, nodes, the coordinator and the driver die in the middle: 3,000 files arrive once each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import ray_committer
from ray_committer import CommitOptions, CommitReport, Outcome
from ray_committer.errors import LeaseLostError
from ray_committer.events import Event, FilesRenamed, StageEnded, StageStarted
from ray_committer.limits.ratelimit import LEASE_SECONDS
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import write_job
from tests.conftest import visible_files
from tests.integration.ray.jobs import commit_workers, processes, write_files
from tests.raylets import add_node, start_cluster
from tests.stages.support import staged_name

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray-faults"),
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("small_shards"),
]

FILES = 3_000


@pytest.fixture(scope="module")
def cluster(no_shared_raylets: None) -> Iterator[Cluster]:
    """Three raylets on this machine: one that may be lost, and two that stay."""
    cluster = start_cluster({"num_cpus": 2}, {"num_cpus": 2})
    try:
        ray.init(address=cluster.address, log_to_driver=False, namespace="ray_committer")
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def at(part: float, action: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that does something once, when this part of the files has been renamed."""
    done: list[object] = []

    def listen(event: Event) -> None:
        if isinstance(event, FilesRenamed) and event.done >= part * event.total and not done:
            done.append(event)
            action()

    return listen


def at_stage(name: str, action: Callable[[], object], *, ended: bool = False) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, StageEnded if ended else StageStarted) and event.stage == name:
            action()

    return listen


def kill_a_worker() -> None:
    os.kill(commit_workers()[0], signal.SIGKILL)


def kill_the_host() -> None:
    os.kill(processes("CommitHost")[0], signal.SIGKILL)


def commit(dest: Path, *listeners: Callable[[Event], None], **options: Any) -> CommitReport:
    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return ray_committer.commit_job(
        str(dest),
        executor="ray",
        options=CommitOptions(**{"workers": 2, **options}),
        on_event=listen,
    )


def check(report: CommitReport, dest: Path, written: dict[str, str]) -> None:
    """Each file once: renamed now or proved, with its own content, and nothing else."""
    assert report.outcome is Outcome.COMMITTED
    assert report.moved + sum(report.proved.values()) == len(written)
    assert visible_files(dest) == written
    assert not (dest / "_temporary").exists()


def test_a_worker_and_then_a_node_are_lost(cluster: Cluster, dest: Path):
    written = write_files(dest, tasks=60, files=FILES)
    doomed = add_node(cluster, num_cpus=2)
    cluster.wait_for_nodes()
    report = commit(
        dest,
        at(0.20, kill_a_worker),
        at(0.45, lambda: cluster.remove_node(doomed, allow_graceful=False)),
        workers=6,
    )
    check(report, dest, written)
    lost = report.lost_workers
    assert len(lost) >= 2
    assert all(one.cause for one in lost)
    assert any(one.node and one.process for one in lost)  # one that dies as it starts has told neither
    assert report.shards_requeued >= 1
    assert report.findings[0].startswith(f"{len(lost)} workers were lost and replaced: worker ")
    assert sum(row.files for row in report.worker_rows) == len(written)
    assert {row.worker for row in report.worker_rows if row.lost} <= {one.worker for one in lost}
    cluster.wait_for_nodes()  # until Ray has noticed, it starts the next test's workers there, too


def test_workers_are_lost_while_directories_go_whole(cluster: Cluster, dest: Path):
    """What a lost worker has moved is moved again by another one, whose request misses and is proved."""
    tasks = {
        task: {f"p={n}/{staged_name('f', task)}": f"{task} {n}".encode() for n in range(1_000)}
        for task in range(3)
    }
    write_job(LocalStore(StoreSpec("file")), new_job_attempt(str(dest), "job_1", 0), tasks)
    written = {name: data.decode() for files in tasks.values() for name, data in files.items()}
    report = commit(dest, at(0.1, kill_a_worker), at(0.5, kill_a_worker), workers=3)
    check(report, dest, written)
    assert (report.whole, report.by_file) == (1_000, {})
    assert len(report.lost_workers) >= 1


@pytest.mark.wide
def test_a_worker_is_lost_when_all_files_are_in_place(cluster: Cluster, dest: Path):
    """The one in its place looks at them once more."""
    written = write_files(dest, tasks=40, files=80)
    listener = at_stage(names.VALIDATE, kill_a_worker)
    report = commit(dest, listener, workers=1)
    check(report, dest, written)
    assert len(report.lost_workers) == 1


@pytest.mark.parametrize(
    "listener",
    [
        pytest.param(
            at_stage("job_stage_load_manifests", kill_the_host, ended=True),
            id="before the preflight",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            at_stage(names.SAVE_RECORD, kill_the_host),
            id="before the declaration",
            marks=pytest.mark.wide,
        ),
        pytest.param(
            at_stage("job_stage_create_target_dirs", kill_the_host),
            id="before the directories",
            marks=pytest.mark.wide,
        ),
        pytest.param(at(0.3, kill_the_host), id="while renaming"),
    ],
)
def test_the_coordinator_is_lost(cluster: Cluster, dest: Path, listener: Callable[[Event], None]):
    written = write_files(dest, tasks=60, files=FILES)
    report = commit(dest, listener)
    check(report, dest, written)
    assert any("coordinator of this commit" in notice for notice in report.notices)


DRIVER = """
import sys, ray_committer as rc
from ray_committer.events import FilesRenamed
from ray_committer.protocol import plan
plan.SMALLEST_SHARD = plan.LARGEST_SHARD = 60
def listen(event):
    if isinstance(event, FilesRenamed):
        print("done", event.done, flush=True)
options = rc.CommitOptions(workers=2)
rc.commit_job(sys.argv[1], executor="ray", options=options, on_event=listen)
"""


def test_the_driver_is_lost_and_the_same_command_finishes(cluster: Cluster, dest: Path):
    written = write_files(dest, tasks=60, files=FILES)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(dest)],
        stdout=subprocess.PIPE,
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        text=True,
    )
    with driver:
        assert driver.stdout is not None
        done = (int(line.split()[1]) for line in driver.stdout if line.startswith("done "))
        assert any(number >= 0.3 * FILES for number in done)
        driver.kill()
    seen = len(visible_files(dest))
    assert 0.3 * FILES <= seen < FILES
    report = commit(dest)
    assert report.resumed
    assert sum(report.proved.values()) >= seen
    check(report, dest, written)


WAITING = """
import sys, ray_committer as rc
print("begins", flush=True)
report = rc.commit_job(sys.argv[1], "job_1", executor=sys.argv[2])
print(report.outcome.value, report.moved)
"""


@pytest.mark.wide
@pytest.mark.parametrize("executor", ["ray", "threads"])
def test_a_second_driver_waits_for_the_first(cluster: Cluster, dest: Path, executor: str):
    written = write_files(dest, tasks=4, files=2_000)
    seconds: list[subprocess.Popen[str]] = []

    def start_second() -> None:
        command = [sys.executable, "-c", WAITING, str(dest), executor]
        variables = {**os.environ, "RAY_ADDRESS": cluster.address}
        second = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        seconds.append(second)
        assert second.stdout is not None
        assert second.stdout.readline() == "begins\n"
        time.sleep(3.0)  # ample for it to have done everything, had it not waited
        assert second.poll() is None

    report = commit(dest, at(0.0, start_second))
    (second,) = seconds
    output, _ = second.communicate(timeout=60)
    assert output == f"{Outcome.ALREADY_COMMITTED.value} 0\n"
    check(report, dest, written)
    assert report.moved == len(written)


def test_no_rename_begins_once_the_lease_is_over(cluster: Cluster, dest: Path):
    """Who hands out leases stops answering, as behind a partition: the workers stop by themselves."""
    written = write_files(dest, tasks=60, files=FILES)
    seen: list[int] = []

    def cut_off() -> None:
        frozen.extend(processes("CommitHost"))
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LEASE_SECONDS + 2.0)  # and the renames that were in flight
        seen.append(len(visible_files(dest)))
        time.sleep(2.0)
        seen.append(len(visible_files(dest)))

    frozen: list[int] = []
    try:
        with pytest.raises(LeaseLostError, match="so no more requests can be made"):
            commit(dest, at(0.1, cut_off), max_requests_per_second=3_000.0)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
    assert seen[0] == seen[1] < FILES
    report = commit(dest)
    check(report, dest, written)
