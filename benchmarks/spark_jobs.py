"""Is a Spark job ever slower with us than with Spark's own committers, and how much is a commit faster?

The same job end to end, its tasks' commits included, in a driver of its own: an append of two files, one
of 2,000 files in 200 partitions, and a dynamic overwrite of as many, at 0 and at 20 ms a request, which
both the JVM and our processes pay. Before what is measured, each driver writes a small table.
Spark's default is Hadoop's v1. Hadoop's manifest committer needs Hadoop 3.5 and so PySpark 4. Ours is
`executor="auto"`, which takes threads in the driver's Python for jobs as small as these, and workers on
Ray in a pool that has started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import harness
import pyspark

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.metered_job import MeteredJob, run

SIZES = {"two files": (1, 2), "2,000 files": (200, 10)}
MILLIS = (0, 20)
JOBS = {"two files": ("append",), "2,000 files": ("append", "dynamic")}
BINDING = Path(__file__).parent / "java" / "ManifestBinding.java"


def measure(job: MeteredJob) -> dict[str, float]:
    """Run one job in a driver of its own."""
    directory = tempfile.mkdtemp(prefix="spark-jobs-")
    try:
        command = [sys.executable, __file__, "--child", directory, json.dumps(asdict(job))]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert result.returncode == 0, result.stderr[-3000:]
        found = json.loads(result.stdout.splitlines()[-1])
        assert found["rows"] == job.partitions * job.files * 10
        return {"seconds": found["seconds"], "commit_seconds": found["commit_seconds"]}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def child(directory: Path, job: MeteredJob) -> None:
    """Let our store cost what Hadoop's does, in this process and on Ray's workers, and run the job."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(directory), str(BINDING)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    price(job.millis / 1000)
    if job.executor != "ray":
        print(json.dumps(run(directory, [job])[0]))
        return
    import ray

    import ray_committer

    path = os.pathsep.join(str(Path(__file__).parents[up]) for up in (0, 1))

    def price_a_worker() -> None:
        price(job.millis / 1000)

    hook = {"worker_process_setup_hook": price_a_worker, "env_vars": {"PYTHONPATH": path}}
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env=hook)
    options = ray_committer.CommitOptions(workers=2, worker_threads=32)
    with ray_committer.commit_pool(options) as pool:
        print(json.dumps(run(directory, [job], executor=pool)[0]))


def price(seconds: float) -> None:
    from ray_committer.stores import registry

    registry.LocalStore = lambda _: harness.PricedStore(seconds)


def main() -> None:
    jobs = {}
    for size, (partitions, files) in SIZES.items():
        for millis in MILLIS:
            for job in JOBS[size]:
                committers = {
                    "ours": MeteredJob("ours", job, millis, partitions, files),
                    "v1": MeteredJob("v1", job, millis, partitions, files),
                    "manifest": MeteredJob("manifest", job, millis, partitions, files),
                }
                rounds = 2
                if size == "2,000 files":
                    committers["ours on Ray"] = replace(committers["ours"], executor="ray")
                    rounds = 1 if millis else 2  # Spark's own takes minutes here, most of it asleep
                jobs[f"{job} of {size}, {millis} ms"] = rounds_of(committers, rounds)
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


def rounds_of(jobs: dict[str, MeteredJob], number: int) -> dict[str, Any]:
    """Each committer in turn, `number` times."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for _ in range(number):
        for name, job in jobs.items():
            found[name].append(measure(job))
            print(name, job.job, job.millis, job.files, found[name][-1], file=sys.stderr)
    return {"rounds": found, "median": {name: harness.medians(values) for name, values in found.items()}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args().child
    if given:
        child(Path(given[0]), MeteredJob(**json.loads(given[1])))
    else:
        main()
