"""Whole jobs on HDFS: through the public calls, throttled, killed, and on Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hdfs_native.fsspec import HdfsFileSystem

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.events import Event, FilesRenamed
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.recovery import Proof
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import open_store
from ray_committer.testing import (
    visible_files,
)
from tests.integration.ray.jobs import commit_workers
from tests.integration.store_jobs import Tasks, all_of, tasks_of, write_job
from tests.servers.hdfs import HdfsServer
from tests.servers.hdfs_gate import HdfsGate

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(120)]

DEFAULTS = CommitOptions()


def url_of(spec: StoreSpec, directory: str) -> str:
    return f"{spec.scheme}://{spec.authority}{directory.replace(' ', '%20')}"


@pytest.fixture
def filesystem(server: HdfsServer) -> HdfsFileSystem:
    """What tasks write with: fsspec's interface to the same client.

    fsspec empties its cache in a forked child, where that client waits for ever for its lost threads.
    """
    host, _, port = server.authority.partition(":")
    return HdfsFileSystem(host, int(port), skip_instance_cache=True)


def write_by_api(
    filesystem: HdfsFileSystem,
    url: str,
    tasks: Tasks,
    storage_options: dict[str, str] | None = None,
    *,
    job_id: str = "job_1",
    options: CommitOptions = DEFAULTS,
) -> None:
    """Write a job as a Python program does."""
    ray_committer.setup_job(url, job_id, options=options, storage_options=storage_options)
    for task, files in tasks.items():
        with ray_committer.task_attempt(url, job_id, task, storage_options=storage_options) as attempt:
            for name, data in files.items():
                with filesystem.open(attempt.path(name), "wb") as file:
                    file.write(data)


@pytest.mark.parametrize("way", ["rpc", "web", "hdfs over web"])
def test_a_python_job_is_committed_through_either_way(
    server: HdfsServer,
    rpc: StoreSpec,
    web: StoreSpec,
    filesystem: HdfsFileSystem,
    directory: str,
    way: str,
):
    spec = web if way == "web" else rpc
    options = {"webhdfs_url": server.http_url} if way == "hdfs over web" else {}
    url, tasks = url_of(spec, directory), tasks_of(24, tasks=3)
    write_by_api(filesystem, url, tasks, options)
    report = ray_committer.commit_job(url, executor="threads", storage_options=options)
    assert (report.outcome, report.moved, report.validated) == (Outcome.COMMITTED, 24, 24)
    store = open_store(rpc)
    assert visible_files(store, directory) == all_of(tasks)
    assert store.get_status(f"{directory}/_temporary") is None
    again = ray_committer.commit_job(url, "job_1", executor="threads", storage_options=options)
    assert again.outcome is Outcome.ALREADY_COMMITTED


def test_what_hadoop_and_rpc_wrote_is_committed_over_http(
    server: HdfsServer, rpc: StoreSpec, directory: str
):
    """Manifests name ``hdfs://``, and only HTTP is to be reached."""
    job, tasks = new_job_attempt(directory, "job_1", 0), tasks_of(24, tasks=3)
    write_job(open_store(rpc), job, tasks)
    report = ray_committer.commit_job(
        url_of(rpc, directory),
        executor="threads",
        storage_options={"webhdfs_url": server.http_url},
    )
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, 24)
    assert visible_files(open_store(rpc), directory) == all_of(tasks)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.timeout(240)
class TestOnRay:
    """Each worker opens the store by its description, on another node."""

    @pytest.mark.wide
    @pytest.mark.usefixtures("small_shards")
    def test_a_killed_worker_and_lost_answers_lose_nothing(
        self, gate: HdfsGate, rpc: StoreSpec, directory: str
    ):
        store, job = open_store(rpc), new_job_attempt(directory, "job_1", 0)
        tasks = tasks_of(400, tasks=5)
        write_job(store, job, tasks)
        killed: list[int] = []

        def harm(event: Event) -> None:
            if isinstance(event, FilesRenamed):
                gate.lose_answer("rename2")
            if isinstance(event, FilesRenamed) and not killed:
                killed.append(commit_workers()[0])
                os.kill(killed[0], signal.SIGKILL)

        lost = gate.lost
        report = ray_committer.commit_job(
            url_of(rpc, directory),
            executor="ray",
            options=CommitOptions(workers=2),
            on_event=harm,
        )
        assert len(killed) == 1
        assert gate.lost > lost
        assert report.moved + sum(report.proved.values()) == 400
        assert set(report.proved) == {Proof.MODIFICATION_TIME}
        assert visible_files(store, directory) == all_of(tasks)


@pytest.mark.wide
def test_a_module_of_the_server_runs_by_hand(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-m", "tests.servers.hdfs"],
        input="",
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert run.stdout.startswith("hdfs://127.0.0.1:")
