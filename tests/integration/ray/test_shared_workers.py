"""One pool of workers for many commits; workers without the package; metrics; packed manifests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.executors.base import Readiness
from ray_committer.executors.choose import open_pool_ahead
from ray_committer.executors.ray.executor import RayPool
from tests.conftest import visible_files
from tests.integration.ray.jobs import commit_workers, write_files

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("ray_cluster"),
]

DASHBOARD = Path(__file__).parents[3] / "cluster_configs" / "grafana" / "ray_committer.json"


@pytest.fixture(scope="module")
def pool(ray_cluster: None) -> Iterator[RayPool]:
    with ray_committer.commit_pool(CommitOptions(workers=4)) as opened:
        assert isinstance(opened, RayPool)
        yield opened


@pytest.mark.wide
def test_metrics_of_the_workers_are_at_every_node(pool: RayPool, dest: Path):
    """The first to use the pool, whose metrics count all that it has done."""
    write_files(dest, tasks=4, files=4_000)
    ray_committer.commit_job(str(dest), executor=pool)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    assert len(nodes) == 3
    # The cluster still tells what workers of other tests did, so it is this pool's that are asked for.
    workers = "|".join(ray.get([_worker_id(worker.actor) for worker in pool.pool.workers]))
    renamed = (
        rf'ray_committer_operations_total\{{[^}}]*WorkerId="(?:{workers})"[^}}]*'
        rf'operation="commit_file_rename"[^}}]*\}} ([0-9.e+]+)'
    )
    deadline = time.monotonic() + 60  # Ray exports them every ten seconds
    total, exporting = 0.0, 0
    while total < 4_000 and time.monotonic() < deadline:
        time.sleep(1.0)
        texts = [scrape(node) for node in nodes]
        found = [[float(value) for value in re.findall(renamed, text)] for text in texts]
        total, exporting = sum(map(sum, found)), sum(map(bool, found))
    assert total == 4_000
    assert exporting == 3  # there are workers on every node
    asked = set(re.findall(r"ray_committer_\w+", DASHBOARD.read_text()))
    assert {name for name in asked if not any(name in text for text in texts)} == set()


def _worker_id(actor: Any) -> Any:
    return actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_worker_id())


def scrape(node: dict[str, object]) -> str:
    """The metrics of a node; empty as long as its agent starts."""
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


def test_one_pool_serves_many_commits_also_at_once(pool: RayPool, tmp_path: Path):
    dests = [tmp_path / str(number) for number in range(4)]
    written = [write_files(dest, tasks=4, files=400) for dest in dests]
    workers = sorted(processes_of(pool))

    def commit(dest: Path) -> tuple[Outcome, str, str]:
        report = ray_committer.commit_job(str(dest), executor=pool)
        return report.outcome, report.executor, report.executor_reason

    on_the_pool = (Outcome.COMMITTED, "ray", "on the given pool")
    assert commit(dests[0]) == on_the_pool
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(commit, dests[1:])) == [on_the_pool] * 3
    assert [visible_files(dest) for dest in dests] == written
    assert len(workers) == 4
    assert sorted(processes_of(pool)) == workers


def test_a_pool_ends_its_workers_and_nothing_else(pool: RayPool):
    with ray_committer.commit_pool(CommitOptions(workers=2)) as other:
        assert isinstance(other, RayPool)
        ended = set(processes_of(other))
    assert ray.is_initialized()
    deadline = time.monotonic() + 20
    while ended & set(commit_workers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ended.isdisjoint(commit_workers())
    assert set(processes_of(pool)) <= set(commit_workers())


def processes_of(pool: RayPool) -> list[int]:
    return ray.get(
        [worker.actor.__ray_call__.remote(lambda _: os.getpid()) for worker in pool.pool.workers]
    )


@pytest.mark.wide
def test_small_manifests_are_read_once(dest: Path, tmp_path: Path):
    """They travel with the work; read otherwise are the two packs, for the look at sources, and the last
    state."""
    written = write_files(dest, tasks=60, files=300)
    options = CommitOptions(workers=2, summary_directory=str(tmp_path / "reports"), validate=False)
    ray_committer.commit_job(str(dest), executor="ray", options=options)
    assert visible_files(dest) == written
    found = statistics(tmp_path / "reports" / "summary-job_1.json")
    counters, means = found["counters"], found["meanstatistics"]
    assert {"job_stage_start_workers.mean", "job_stage_load_manifests.mean"} <= means.keys()
    assert counters["op_open"] == 60 + 2 + 1
    assert counters["commit_file_rename"] == 300
    # Twice frozen, declared, recorded, committed; _SUCCESS; the job's directory, which is taken away.
    assert counters["op_rename"] == 300 + 5 + 1 + 1


def statistics(path: Path) -> dict[str, dict[str, int]]:
    return json.loads(path.read_text())["iostatistics"]


LACKING = """
import sys, ray, ray_committer as rc
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
         runtime_env={"env_vars": {"PYTHONPATH": sys.argv[2]}})
try:
    rc.commit_job(sys.argv[1], executor="ray", options=rc.CommitOptions(workers=2))
except rc.errors.RayNotAvailableError as e:
    print("refused:", e)
"""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("site", "text"),
    [
        pytest.param(
            "import sys; sys.modules['ray_committer'] = None",
            "lacks the package ray-committer",
            id="no package",
        ),
        pytest.param(
            "import ray_committer.version as v; v.__version__ = '0.0.1'",
            "runs ray-committer 0.0.1, the driver runs",
            id="another version",
        ),
    ],
)
def test_a_node_without_this_package_is_found_before_anything_moves(
    dest: Path, tmp_path: Path, site: str, text: str
):
    write_files(dest, tasks=2, files=10)
    path = tmp_path / "site"
    path.mkdir()
    (path / "sitecustomize.py").write_text(site + "\n")
    run = subprocess.run(
        [sys.executable, "-c", LACKING, str(dest), str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
    )
    assert "refused:" in run.stdout, run.stderr
    assert text in run.stdout
    assert visible_files(dest) == {}
    assert ray_committer.list_jobs(str(dest))[0].state == "running"


ONE_OF_TWO = """
import sys, time, pathlib, ray, ray_committer as rc
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
pathlib.Path(sys.argv[2]).touch()
while not pathlib.Path(sys.argv[3]).exists():
    time.sleep(0.01)
try:
    report = rc.commit_job(sys.argv[1], "job_1", executor="ray", options=rc.CommitOptions(workers=2))
    print(report.outcome.value, report.moved)
except rc.errors.RayCommitterError as e:
    print(type(e).__name__, e)
"""


@pytest.mark.wide
def test_two_committers_in_two_clusters_at_once_are_harmless(dest: Path, tmp_path: Path):
    """Neither cluster knows of the other: both may end, or one says what to do, and nothing is lost."""
    written = write_files(dest, tasks=20, files=6_000)
    go, ready = tmp_path / "go", [tmp_path / "ready-0", tmp_path / "ready-1"]
    committers = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_OF_TWO, str(dest), str(path), str(go)],
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        )
        for path in ready
    ]
    while not all(path.exists() for path in ready):
        assert all(one.poll() is None for one in committers)
        time.sleep(0.05)
    go.touch()
    ends = [one.communicate()[0] for one in committers]
    assert any(end.startswith(Outcome.COMMITTED.value) for end in ends), ends
    report = ray_committer.commit_job(str(dest), "job_1")
    assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED), ends
    assert visible_files(dest) == written
    assert not (dest / "_temporary").exists()


def test_a_pool_says_whether_its_workers_could_begin():
    with ray_committer.commit_pool(CommitOptions(workers=2)) as pool:
        assert isinstance(pool, RayPool)
        while (found := pool.readiness()) is not Readiness.READY:
            assert found is Readiness.STARTING
        ray.kill(pool.pool.workers[1].actor)
        while pool.readiness() is Readiness.READY:  # until Ray knows
            time.sleep(0.05)
        assert pool.readiness() is Readiness.LOST
    assert pool.readiness() is Readiness.LOST


def test_workers_are_started_ahead_only_if_all_of_them_have_room():
    assert open_pool_ahead(CommitOptions(workers=2, worker_cpus=100.0), "a job") is None
    pool = open_pool_ahead(CommitOptions(workers=1), "a job")
    assert pool is not None
    assert pool.reason == "workers were started while the tasks ran"
    pool.close()


ENDS_A_POOL = """
import sys, time, ray, ray_committer as rc
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
with rc.commit_pool(rc.CommitOptions(workers=1)) as pool:
    rc.commit_job(sys.argv[1], executor=pool, options=rc.CommitOptions(assume_complete=True))
time.sleep(3)  # Ray prints what it has to say of lost actors each second
"""


@pytest.mark.wide
def test_ray_says_nothing_of_a_pool_that_ends(dest: Path):
    """A call that was on its way to an actor which is ended was printed as a crash."""
    write_files(dest, tasks=2, files=10)
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_A_POOL, str(dest)], capture_output=True, text=True, check=True
    )
    assert "(raylet)" not in ended.stdout + ended.stderr
