"""Is a Spark job ever slower with us than with Spark's own committers, and how much is a commit faster?

The same job end to end, its tasks' commits included: an append of two files, one of 2,000 files in 200
partitions, and a dynamic overwrite of as many, at 0 and at 20 ms a request, which both the JVM and our
processes pay. The committers take turns in one driver, each round in another order, and before what is
measured each writes a small table. Spark's default is Hadoop's v1. Hadoop's manifest committer needs
Hadoop 3.5 and so PySpark 4. Ours is `executor="auto"`, which takes threads in the driver's Python for
jobs as small as these; and, in a driver that is connected to Ray, workers in a pool that has started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import harness
import pyspark

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.base import CommitPool

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.metered import compiled
from tests.integration.spark.metered_job import MeteredJob, run

ROOT = Path(__file__).parents[1]
SIZES = {"two files": (1, 2), "2,000 files": (200, 10)}
MILLIS = (0, 20)
JOBS = {"two files": ("append",), "2,000 files": ("append", "dynamic")}
TURNS = ("v1", "manifest", "ours")
ON_RAY = ("ours on Ray",)
ROUNDS = {0: 3, 20: 1}
"""At 20 ms Spark's own takes minutes, most of it asleep, which hardly differs from run to run."""
BINDING = Path(__file__).parent / "java" / "ManifestBinding.java"


def measure(job: str, millis: int, partitions: int, files: int) -> dict[str, Any]:
    """The rounds of each committer and their medians."""
    rounds: dict[str, list[dict[str, float]]] = {}
    for committers in (TURNS, ON_RAY):
        jobs = []
        for turn in range(ROUNDS[millis]):
            first = turn % len(committers)
            order = committers[first:] + committers[:first]
            jobs += [MeteredJob(committer, job, millis, partitions, files) for committer in order]
        for one, taken in zip(jobs, in_one_driver(jobs), strict=True):
            print(one, taken, file=sys.stderr)
            rounds.setdefault(one.committer, []).append(taken)
    return {"rounds": rounds, "median": {name: harness.medians(one) for name, one in rounds.items()}}


def in_one_driver(
    jobs: list[MeteredJob], python: str = sys.executable, checkout: Path = ROOT
) -> Iterator[dict[str, float]]:
    """How long each job took, as they end, with the PySpark of `python` and this package of a
    `checkout`."""
    directory = tempfile.mkdtemp(prefix="spark-jobs-")
    command = [python, str(checkout / "benchmarks" / "spark_jobs.py"), "--child", directory]
    command += [json.dumps(asdict(job)) for job in jobs]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout
        ) as driver:
            assert driver.stdout is not None
            for job, line in zip(jobs, driver.stdout, strict=True):
                found = json.loads(line)
                assert found["rows"] == job.partitions * job.files * 10
                taken = {name: found[name] for name in ("seconds", "commit_seconds")}
                yield taken
        assert driver.returncode == 0
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def child(directory: Path, jobs: list[MeteredJob]) -> None:
    """Let our store cost what Hadoop's does, in this process and on Ray's workers, and run the jobs."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(compiled()), str(BINDING)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    price(jobs[0].millis)
    with ExitStack() as stack:
        pool = None
        if jobs[0].committer in ON_RAY:
            pool = stack.enter_context(ray_pool(jobs[0].millis))
        for found in run(directory, jobs, pool):
            print(json.dumps(found), flush=True)


@contextmanager
def ray_pool(millis: int) -> Iterator[CommitPool]:
    import ray

    path = os.pathsep.join(str(Path(__file__).parents[up]) for up in (0, 1))

    def price_a_worker() -> None:
        price(millis)

    hook = {"worker_process_setup_hook": price_a_worker, "env_vars": {"PYTHONPATH": path}}
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env=hook)
    with ray_committer.commit_pool(CommitOptions(workers=2, worker_threads=32)) as pool:
        yield pool


def price(millis: int) -> None:
    """Without a price the store is as it is: a sleep of no time is a change of threads."""
    from ray_committer.stores import registry

    if millis:
        vars(registry)["LocalStore"] = lambda _: harness.PricedStore(millis / 1000)


def main() -> None:
    jobs = {
        f"{job} of {size}, {millis} ms": measure(job, millis, *SIZES[size])
        for size in SIZES
        for millis in MILLIS
        for job in JOBS[size]
    }
    harness.save("spark_jobs", __doc__ or "", {"spark": pyspark.__version__, "jobs": jobs}, bars(jobs))


def bars(jobs: dict[str, dict[str, Any]]) -> dict[str, tuple[float, str, float]]:
    """A large job is never slower end to end, and the commit of its dynamic overwrite 10 times as fast.

    A job of two files has no bar: its manifests and its commit record cost requests that v1 spares.
    """
    found = {}
    for name in (name for name in jobs if "2,000" in name):
        median = jobs[name]["median"]
        for other in ("v1", "manifest"):
            ratio = median[other]["seconds"] / median["ours"]["seconds"]
            found[f"{name}: {other} to ours, end to end"] = (round(ratio, 3), ">=", 1.0)
    slow = jobs["dynamic of 2,000 files, 20 ms"]["median"]
    for ours in ("ours", "ours on Ray"):
        ratio = slow["v1"]["commit_seconds"] / slow[ours]["commit_seconds"]
        found[f"dynamic overwrite at 20 ms: Spark's commit to {ours}"] = (round(ratio, 1), ">=", 10.0)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs="+")
    given = parser.parse_args().child
    if given:
        child(Path(given[0]), [MeteredJob(**json.loads(job)) for job in given[1:]])
    else:
        main()
