"""Is the time that `benchmarks/simulation` gives within a tenth of that of real commits?

Six commits of this machine, on local files behind so many milliseconds a request: by 32 and 64 threads,
with many and with few files per task, with and without validation; by two and four workers on Ray that
are ready. Each is simulated with its own number of files, tasks and requests in flight, and the costs of
`benchmarks/simulation/costs.py`.

Then the published commit: 94,499 tasks of one file each on Azure. v1 took 170 ms for each file, and
it makes four requests for each (`peers.py` counts them), so a request took 43 ms. With 16 workers of 32
requests in flight this machine cannot carry that, so it is simulated. It can carry 170 ms for each
request, which is committed as well.

Other programs on the machine make all that is computed slower: before and after each commit, a loop
shows by how much, and the simulation has that factor. It is 1 on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
from one_file_tasks import TreesGoAtOnce
from simulation.inputs import Job, Setup
from simulation.simulate import Estimate, simulate
from simulation.stores import ADLS, HDFS

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.job_files.read_job import read_job_and_manifests
from ray_committer.jobs.estimate import WRITE
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

ROUNDS = 3
BEHIND_A_NETWORK = replace(HDFS, name="harness.PricedStore", client=0.0, page=None, weights={WRITE: 2})
PUBLISHED = Job(files=94_499, manifests=94_499)
PUBLISHED_SECONDS = 0.043
"""Of a request, if v1's four for a file took 170 ms."""
BAR_SECONDS = 60.0
NEAR = 0.10
BUSY_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Point:
    """A commit: `tasks` of `files` files each in `directories`, `milliseconds` a request, `in_flight` in
    each worker or in the threads of this process."""

    tasks: int
    files: int
    directories: int
    milliseconds: int
    in_flight: int
    workers: int | None = None
    validates: bool = False

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1000

    def __str__(self) -> str:
        where = (
            f"{self.workers} x {self.in_flight} on Ray" if self.workers else f"{self.in_flight} threads"
        )
        checked = ", validated" if self.validates else ""
        return f"{self.tasks}x{self.files} at {self.milliseconds} ms, {where}{checked}"

    @property
    def job(self) -> Job:
        return Job(
            self.tasks * self.files, self.tasks, self.directories, min(self.files, self.directories)
        )

    def setup(self, busy: float = 1.0) -> Setup:
        return Setup(
            BEHIND_A_NETWORK,
            self.seconds,
            self.in_flight,
            self.workers,
            warm=True,
            cores=os.cpu_count(),
            validates=self.validates,
            busy=busy,
        )


POINTS = (
    Point(20, 500, 10, 20, 32),
    Point(2_000, 1, 1, 20, 32),
    Point(400, 10, 5, 10, 64, validates=True),
    Point(40, 100, 20, 25, 16, workers=2),
    Point(80, 250, 5, 35, 32, workers=4, validates=True),
    Point(4_000, 1, 1, 35, 32, workers=4),
)
SLOW_REQUESTS = Point(94_499, 1, 1, 170, 32, workers=16)
"""The published commit, if each request took as long as a file."""


def measure(root: Path, point: Point, pool: RayPool | None) -> dict[str, float]:
    """Commit once: seconds from call to return, how busy the machine is, and each stage."""
    job = harness.write_job(root, tasks=point.tasks, files=point.files, directories=point.directories)
    store = TreesGoAtOnce(point.seconds, root.parent)
    options = CommitOptions(
        validate=point.validates, workers=point.workers, worker_threads=point.in_flight
    )
    before, begun = busy(), time.monotonic()
    if point.workers is None:
        executor = ThreadsExecutor(
            lambda permits: Worker(store, job, permits, in_driver=True), threads=point.in_flight
        )
        report = run_commit(
            store, job, options, executor=executor, state=read_job_and_manifests(store, job)
        )
        executor.close()
    else:
        report = on_ray(job, point, options, store, pool)
    seconds = time.monotonic() - begun
    return {"seconds": seconds, "busy": (before + busy()) / 2, **report.stage_seconds}


def busy() -> float:
    """How many times its processor time a loop takes."""
    begun, used = time.monotonic(), time.process_time()
    while time.monotonic() < begun + BUSY_SECONDS:
        pass
    return (time.monotonic() - begun) / (time.process_time() - used)


def on_ray(
    job: JobAttempt,
    point: Point,
    options: CommitOptions,
    store: harness.PricedStore,
    pool: RayPool | None,
) -> CommitResult:
    opens = harness.OpenPriced(point.seconds, job, point.in_flight)
    executor = RayExecutor(opens, options, pool=pool)
    try:
        state = read_job_and_manifests(store, job)
        return run_commit(store, job, options, executor=executor, state=state)
    finally:
        executor.close()


def compare(root: Path, point: Point, rounds: int, pool: RayPool | None) -> dict[str, Any]:
    """Real commits, and the simulated one; a long one is measured once, without another to warm up."""
    if point is SLOW_REQUESTS:
        once = measure(root, point, pool)
        found: dict[str, Any] = {"rounds": [once], "median": harness.medians([once])}
    else:
        found = harness.rounds(lambda: measure(root, point, pool), number=rounds)
    took, times = found["median"]["seconds"], found["median"]["busy"]
    simulated = simulate(point.job, point.setup(times))
    ratio = simulated.seconds / took
    print(f"{point}: {took:.2f} s, simulated {simulated.seconds:.2f} s, {ratio:.3f}, busy {times:.2f}")
    return {
        **found,
        "simulated_seconds": round(simulated.seconds, 3),
        "simulated_stages": {name: round(one, 3) for name, one in simulated.stages.items()},
        "simulated_to_real": round(ratio, 3),
    }


def published(seconds: float) -> Estimate:
    return simulate(PUBLISHED, Setup(ADLS, seconds, 32, 16, warm=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--only", type=int, nargs="*", help="numbers of points, from 0; nothing is saved"
    )
    arguments = parser.parse_args()
    every = (*POINTS, SLOW_REQUESTS)
    chosen = [every[number] for number in arguments.only] if arguments.only else every
    root = Path(tempfile.mkdtemp(prefix="simulator-")) / "table"
    found = {}
    in_threads = [point for point in chosen if point.workers is None]
    on_workers = [point for point in chosen if point.workers is not None]
    for point in in_threads:
        found[str(point)] = compare(root, point, arguments.rounds, None)
    if on_workers:
        with harness.local_ray():
            for point in on_workers:
                found[str(point)] = on_cluster(root, point, arguments.rounds)
    if not arguments.only:
        save(found)


def on_cluster(root: Path, point: Point, rounds: int) -> dict[str, Any]:
    """`compare` on workers that are ready."""
    pool = RayPool(CommitOptions(workers=point.workers, worker_threads=point.in_flight))
    try:
        return compare(root, point, rounds, pool)
    finally:
        pool.close()


def save(found: dict[str, Any]) -> None:
    estimate = published(PUBLISHED_SECONDS)
    bars: dict[str, tuple[float, str, float]] = {
        f"simulated, off the real time: {name}": (
            round(abs(one["simulated_to_real"] - 1), 3),
            "<=",
            NEAR,
        )
        for name, one in found.items()
    }
    bars["the published commit, seconds"] = (round(estimate.seconds, 1), "<=", BAR_SECONDS)
    harness.save(
        "simulator",
        __doc__ or "",
        {
            "points": found,
            "published": {
                "seconds_a_request": PUBLISHED_SECONDS,
                "seconds": round(estimate.seconds, 1),
                "stages": dict(estimate.stages),
            },
        },
        bars,
    )


if __name__ == "__main__":
    main()
