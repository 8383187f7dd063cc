"""Simulated commits take as long as those that the benchmarks have measured on a quiet machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulation.inputs import Job, Setup
from benchmarks.simulation.simulate import simulate
from benchmarks.simulation.stores import HDFS
from ray_committer.jobs.estimate import WRITE

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
STORE = replace(HDFS, client=0.0, page=None, weights={WRITE: 2})
"""As `harness.PricedStore` of the benchmarks."""
SHAPES = {"200": (5, 40), "500": (10, 50), "1000": (10, 100), "2000": (20, 100), "4000": (20, 200)}
SHAPES |= {"10000": (20, 500)}
NEAR = 0.10
THREADS = Setup(STORE, 0.02, in_flight=32, validates=False, cores=2)
ON_RAY = replace(THREADS, in_flight=16, workers=2)


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def job(tasks: int, files: int) -> Job:
    """A job of the benchmarks, of which each task has files in all of ten directories."""
    return Job(tasks * files, tasks, min(10, files), min(10, files))


def as_measured(found: Job, setup: Setup) -> Setup:
    """The commits that were measured did not list several directories of a task for few files each."""
    lists = found.task_directories == 1 or found.files_a_manifest >= 8 * found.task_directories
    return replace(setup, store=replace(setup.store, listing_is_cheap=lists))


@pytest.mark.parametrize("files", SHAPES)
@pytest.mark.parametrize(
    ("where", "setup"),
    [("threads", THREADS), ("warm", replace(ON_RAY, warm=True)), ("cold", ON_RAY)],
)
def test_a_commit_takes_as_long_as_by_ray_calls(files: str, where: str, setup: Setup):
    measured = result("ray_calls")["at 20 ms, by files"][files][where]
    found = job(*SHAPES[files])
    simulated = simulate(found, as_measured(found, setup))
    assert simulated.seconds == pytest.approx(measured, rel=NEAR)


@pytest.mark.parametrize(("name", "shape"), [("20x500", (20, 500)), ("2,000x1", (2000, 1))])
def test_a_commit_in_threads_takes_as_long_as_beside_hadoops(name: str, shape: tuple[int, int]):
    median = result("peers")["commits"]["20 ms"][name]["ray_committer, threads"]["median"]
    found = replace(job(*shape), go_whole=median.get("whole", 0) > 0)
    simulated = simulate(found, replace(as_measured(found, THREADS), is_driver=True))
    assert simulated.seconds == pytest.approx(median["seconds"], rel=NEAR)


def test_many_tasks_of_one_file_take_as_long():
    run = result("one_file_tasks")["run"]
    setup = replace(ON_RAY, latency=0.035, in_flight=64, workers=4, warm=True)
    found = simulate(Job(94_499, 94_499), setup)
    assert found.seconds == pytest.approx(run["seconds"], rel=NEAR)
    assert found.stages["load manifests"] == pytest.approx(run["load_manifests"], rel=NEAR)
    assert found.stages["move files"] == pytest.approx(run["rename_files"], rel=NEAR)


def test_a_slow_worker_costs_as_much():
    measured = result("straggler")["median"]["rename_seconds"]
    setup = replace(ON_RAY, latency=0.035, in_flight=32, workers=4, warm=True, slow=1)
    found = simulate(Job(20_000, 80, 20, 20), setup)
    assert found.stages["move files"] == pytest.approx(measured, rel=NEAR)


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_workers_rename_as_fast(workers: int):
    measured = result("scaling")["workers"][str(workers)]["median"]["renames_per_second"]
    setup = replace(ON_RAY, latency=0.025, workers=workers, warm=True)
    files = 2_500 * workers
    found = simulate(Job(files, 10 * workers, 20, 20), setup)
    assert files / found.stages["move files"] == pytest.approx(measured, rel=NEAR)
