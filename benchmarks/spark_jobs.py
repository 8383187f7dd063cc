"""Is a Spark job ever slower with us than with Spark's own committers, and how much is a commit faster?

The same job end to end, its tasks' commits included, in a driver of its own: an append of two files, one
of 2,000 files in 200 partitions, and a dynamic overwrite of as many, at 0 and at 20 ms a request, which
both the JVM and our processes pay. Before what is measured, each driver writes a table of the same kind.
Of Spark's own, v1 is the default and v2 publishes files before the job ends.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import harness
import pyspark

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.metered_job import MeteredJob, run

SIZES = {"two files": (1, 2), "2,000 files": (200, 10)}
MILLIS = (0, 20)
JOBS = ("append", "dynamic")


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
    price(job.millis / 1000)
    if job.executor != "ray":
        print(json.dumps(run(directory, job)))
        return
    import ray

    import ray_committer

    path = str(Path(__file__).parent)
    hook = {"worker_process_setup_hook": Price(job.millis / 1000), "env_vars": {"PYTHONPATH": path}}
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env=hook)
    options = ray_committer.CommitOptions(workers=2, worker_threads=32)
    with ray_committer.commit_pool(options) as pool:
        print(json.dumps(run(directory, job, executor=pool)))


class Price:
    """Sets the price of a request where Ray starts a process."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> None:
        price(self.seconds)


def price(seconds: float) -> None:
    from ray_committer.stores import registry

    registry.LocalStore = lambda _: harness.PricedStore(seconds)


def ratios(seconds: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many times as long Spark's own committers take."""
    return {
        f"{other}, {what}": round(seconds[other][what] / seconds["ours"][what], 3)
        for other in seconds
        for what in seconds["ours"]
        if other != "ours"
    }


def main() -> None:
    jobs = {}
    for size, (partitions, files) in SIZES.items():
        for millis in MILLIS:
            for job in JOBS:
                # Spark's own takes minutes here.
                rounds = 2 if (size, millis) == ("2,000 files", 20) else harness.ROUNDS
                jobs[f"{job} of {size}, {millis} ms"] = rounds_of(
                    {
                        "ours": MeteredJob("ours", job, millis, partitions, files, executor_for(millis)),
                        "v1": MeteredJob("v1", job, millis, partitions, files),
                        "v2": MeteredJob("v2", job, millis, partitions, files),
                    },
                    rounds,
                )
    dynamic = jobs["dynamic of 2,000 files, 20 ms"]["times as long"]["v1, commit_seconds"]
    bars = {"dynamic overwrite at 20 ms: Spark's commit to ours": (dynamic, ">=", 10.0)}
    for name, found in jobs.items():
        worst = min(value for key, value in found["times as long"].items() if key.endswith(" seconds"))
        bars[f"{name}: the fastest other to ours, end to end"] = (worst, ">=", 1.0)
    harness.save("spark_jobs", __doc__ or "", {"spark": pyspark.__version__, "jobs": jobs}, bars)


def executor_for(millis: int) -> str:
    """Where the requests of a store take time, the commit is on Ray."""
    return "ray" if millis else "auto"


def rounds_of(jobs: dict[str, MeteredJob], number: int) -> dict[str, object]:
    """Each committer in turn, `number` times."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for _ in range(number):
        for name, job in jobs.items():
            found[name].append(measure(job))
    medians = {name: harness.medians(values) for name, values in found.items()}
    return {"rounds": found, "median": medians, "times as long": ratios(medians)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args().child
    if given:
        child(Path(given[0]), MeteredJob(**json.loads(given[1])))
    else:
        main()
