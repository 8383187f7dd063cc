"""How does a commit grow, and where does the line bend?

Four series, each of which varies one thing: files, 100 a task; manifests of 100,000 files; partitions of
as many; workers, with files in proportion. Of one whole commit, from call to return, by workers that
have started: seconds, also of each stage; processor seconds and peak memory of the driver, of the
coordinator (the host of directories and limit), of the workers (sum, and the largest) and of Ray's own
servers; requests by kind. A request takes no time, but 25 ms in the series of workers, and no file is
there to be moved.

What a point has above the first point of its series is fitted to a power of the items that are more,
over the points before the bend: the first point that is above the line of those before it by more than a
fifth. `most` is the stage, or the process, with the largest part of that. `last_exponent` is that of the
last two points, bend or not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import linear_regression
from typing import Any

import harness
import ray
from ten_million_entries import NothingMoves

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol.manifest import FileEntry
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.success import decode_success
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

FILES, TASKS, PARTITIONS = 100_000, 1_000, 100
SECONDS, WORKERS = 0.025, (1, 2, 4, 8)
VISIBLE = 0.2
"""Growth by a smaller part of the first point is not told from noise."""
BENT = 1.2
SERVERS = ("(raylet)", "(gcs_server)")

Numbers = dict[str, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """A job, and who commits it: `tasks` with so many `files` each, a request so many `seconds` long."""

    tasks: int
    files: int
    partitions: int = PARTITIONS
    workers: int = 2
    threads: int = 4
    seconds: float = 0.0
    rounds: int = 1


def series(largest: int, others: int, rounds: int = 3) -> dict[str, dict[int, Shape]]:
    """The shapes of each series, by what it varies, up to so many files, and so many manifests and
    partitions. One commit of a large job is enough; small ones differ more."""
    return {
        "files": {
            n: Shape(n // 100, 100, rounds=5 if n < FILES else rounds if n == FILES else 1)
            for n in tenfold(1_000, largest)
        },
        "manifests": {
            n: Shape(n, FILES // n, rounds=rounds if n < FILES else 1) for n in tenfold(100, others)
        },
        "partitions": {n: Shape(TASKS, FILES // TASKS, n, rounds=rounds) for n in tenfold(1, others)},
        "workers": {n: Shape(10 * n, 250, 10, n, 16, SECONDS, rounds) for n in WORKERS},
    }


def tenfold(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 10


class TakesNoTime(harness.AsRemote, NothingMoves):
    """A store behind a network whose requests take no time; trees are deleted by one, as on HDFS: here
    they are moved to the trash beside the destination."""

    def __init__(self, job: JobAttempt) -> None:
        super().__init__(job)
        self.capabilities = replace(self.capabilities, renames_are_local=False)
        self._trash = Path(job.destination).parent / "trash"

    def delete_directory(self, path: str) -> bool:
        with suppress(FileNotFoundError):
            os.rename(path, tempfile.mkdtemp(dir=self._trash))
            return True
        return False


@dataclass(frozen=True, slots=True)
class Open:
    """Opens a worker on `TakesNoTime`; travels to Ray's workers."""

    job: JobAttempt
    threads: int

    def __call__(self, permits: Permits) -> Worker:
        return Worker(TakesNoTime(self.job), self.job, permits, self.threads, in_driver=False)


def write_job(root: Path, shape: Shape) -> None:
    """A job with its files or, where a request takes no time, its manifests alone. The files are in the
    order of partitions."""
    if shape.seconds:
        harness.write_job(
            root, tasks=shape.tasks, files=shape.files, directories=min(shape.partitions, shape.files)
        )
        return
    job = new_job_attempt(str(root), "job_1", 0)
    stamp = setup_job(LocalStore(StoreSpec("file")), job)
    for task in range(shape.tasks):
        entries = list(entries_of(job, task, shape))
        harness.write_manifest(job, task, entries, directories=0, stamp=stamp)


def entries_of(job: JobAttempt, task: int, shape: Shape) -> Iterator[FileEntry]:
    attempt = job.task_attempt(f"attempt_1_m_{task:06d}_0")
    for number in range(task * shape.files, (task + 1) * shape.files):
        partition = number * shape.partitions // (shape.tasks * shape.files)
        name = f"day={partition:06d}/part-{task:06d}-{number:08d}.parquet"
        yield FileEntry(s=f"file://{attempt}/{name}", d=f"file://{job.destination}/{name}", z=16, m=1)


def measure(shape: Shape) -> Numbers:
    """Commits of such jobs by a driver in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="growth-") as base:
        (Path(base) / "trash").mkdir()
        write_job(Path(base) / "0", replace(shape, tasks=2, files=2))  # to warm up
        for number in range(1, shape.rounds + 1):
            write_job(Path(base) / f"{number}", shape)
        run = subprocess.run(
            [sys.executable, __file__, "--commit", base, json.dumps(asdict(shape))],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: Numbers = json.loads(run.stdout.splitlines()[-1])
    return found


def commit_all(base: Path, shape: Shape) -> Numbers:
    """Commit the jobs below `base` in this process: medians, but of memory what it was after the first,
    since a driver commits once."""
    with harness.local_ray():
        pool = RayPool(CommitOptions(workers=shape.workers))
        processes = processes_of(pool)
        commit(base / "0", shape, pool, processes)
        found = [commit(base / f"{n}", shape, pool, processes) for n in range(1, shape.rounds + 1)]
        pool.close()
    kinds = dict.fromkeys(key for one in found for key in one)
    middle = harness.medians([{key: one.get(key, 0.0) for key in kinds} for one in found])
    return middle | {key: value for key, value in found[0].items() if key.startswith("peak_mb")}


def commit(root: Path, shape: Shape, pool: RayPool, processes: dict[str, list[int]]) -> dict[str, float]:
    """One commit, from call to return: what it has taken, by names whose parts are ``NAME of PART``."""
    job = new_job_attempt(str(root), "job_1", 0)
    store: StoreOperations = TakesNoTime(job)
    opens: Callable[[Permits], Worker] = Open(job, shape.threads)
    if shape.seconds:
        store = harness.PricedStore(shape.seconds)
        opens = harness.OpenPriced(shape.seconds, job, shape.threads)
    options = CommitOptions(
        workers=shape.workers,
        worker_threads=shape.threads,
        validate=False,
        summary_directory=str(root.parent),
    )
    before = processor_seconds(processes)
    started = time.monotonic()
    executor = RayExecutor(opens, options, pool=pool)
    report = run_commit(store, job, options, executor=executor)
    executor.close()
    seconds = time.monotonic() - started
    after = processor_seconds(processes)
    stages = {key.removeprefix("job_stage_"): one for key, one in report.stage_seconds.items()}
    stages["other"] = seconds - stages.pop("committer_commit_job")
    used = {name: after[name] - before[name] for name in processes}
    requests = requests_of(root.parent / "summary-job_1.json")
    return {
        "seconds": seconds,
        **{f"seconds of {stage}": one for stage, one in stages.items()},
        "processor_seconds": sum(used.values()),
        **{f"processor_seconds of {name}": one for name, one in used.items()},
        **{f"peak_mb of {name}": max(map(peak_mb, those)) for name, those in processes.items()},
        "requests": sum(requests.values()),
        **{f"requests of {kind}": number for kind, number in requests.items()},
    }


def processes_of(pool: RayPool) -> dict[str, list[int]]:
    """The processes of a commit on this machine, by what they are for."""
    actors = [pool.pool.host.actor, *(worker.actor for worker in pool.pool.workers)]
    host, *workers = ray.get([actor.__ray_call__.remote(lambda _: os.getpid()) for actor in actors])
    return {"driver": [os.getpid()], "coordinator": [host], "workers": workers, "ray": list(servers())}


def servers() -> Iterator[int]:
    """Ray's servers that this process has started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            number, name, _, parent = path.read_text().split()[:4]
            if name in SERVERS and parent == str(os.getpid()):
                yield int(number)


def processor_seconds(processes: dict[str, list[int]]) -> Numbers:
    """By the clock that Linux has for each process, as ``clock_getcpuclockid`` names it."""
    return {
        name: sum(time.clock_gettime(~process << 3 | 2) for process in those)
        for name, those in processes.items()
    }


def peak_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return round(int(kilobytes) * 1024 / 1e6, 1)


def requests_of(summary: Path) -> dict[str, int]:
    """The requests that a commit has counted, by kind."""
    found = decode_success(summary.read_bytes(), str(summary))
    counters = found.iostatistics.counters if found and found.iostatistics else {}
    return {
        key.removeprefix("op_"): number
        for key, number in counters.items()
        if key.startswith("op_") and not key.endswith(".failures")
    }


Points = Sequence[tuple[float, float]]
"""Numbers of items, each with what it takes."""


def power(points: Points) -> tuple[float, float]:
    """Exponent and constant of the power law that is nearest."""
    slope, intercept = linear_regression(
        *zip(*((math.log(n), math.log(v)) for n, v in points), strict=True)
    )
    return slope, math.exp(intercept)


@dataclass(frozen=True, slots=True)
class Line:
    """`fixed` at the `first` point, and above it by a power of the items that are more."""

    first: float
    fixed: float
    exponent: float
    constant: float

    def at(self, items: float) -> float:
        return self.fixed + self.constant * math.pow(items - self.first, self.exponent)


def growth(points: Points) -> Points:
    """How much more than the first point those are that can be told from it."""
    first, fixed = points[0]
    return [(n - first, v - fixed) for n, v in points[1:] if v > (1 + VISIBLE) * fixed]


def fit(points: Points) -> Line | None:
    """None if fewer than two points can be told from the first."""
    grown = growth(points)
    return Line(*points[0], *power(grown)) if len(grown) > 1 else None


def bend(points: Points) -> int | None:
    """The first point that is above the line of those before it; None if there is none."""
    for number, (items, value) in enumerate(points):
        line = fit(points[:number]) if number else None
        if line is not None and value > BENT * line.at(items):
            return number
    return None


def excess(points: Points, number: int) -> float:
    """How much a point is above the line of those before it or, without one, above the last of them."""
    items, value = points[number]
    line = fit(points[:number])
    return value - (line.at(items) if line else points[number - 1][1])


def fits_and_bends(name: str, found: list[Numbers]) -> tuple[dict[str, Numbers], dict[str, Any]]:
    """The line of each number of a series, and where it bends."""
    kinds = [key for key in found[-1] if key != name]
    each = {key: [(one[name], one.get(key, 0.0)) for one in found] for key in kinds}
    fits, bends = {}, {}
    for key, points in each.items():
        bent = bend(points)
        line = fit(points[:bent])
        if line is not None:
            last = points[:bent][-1][0]
            fits[key] = {
                "fixed": line.fixed,
                "exponent": round(line.exponent, 3),
                "per_item": float(f"{(line.at(last) - line.fixed) / (last - line.first):.4g}"),
                "last_exponent": round(power(growth(points)[-2:])[0], 3),
            }
        if bent is not None:
            items, value = points[bent]
            parts = {one: excess(each[one], bent) for one in kinds if one.startswith(f"{key} of ")}
            bends[key] = {
                "at": items,
                "times": round(value / (value - excess(points, bent)), 2),
                "most": max(parts, key=parts.__getitem__) if parts else key,
            }
    return fits, bends


def run(name: str, shapes: dict[int, Shape]) -> dict[str, Any]:
    """Measure one series."""
    found: list[Numbers] = []
    for number, shape in shapes.items():
        found.append({name: number, **measure(shape)})
        print(name, {key: one for key, one in found[-1].items() if " of " not in key}, flush=True)
    if name == "workers":  # the ideal time is the same for all
        return {"points": [one | {"efficiency": found[0]["seconds"] / one["seconds"]} for one in found]}
    fits, bends = fits_and_bends(name, found)
    return {"points": found, "fits": fits, "bends": bends}


def bars(found: dict[str, Any]) -> dict[str, tuple[float, str, float]]:
    """No number grows faster than what it counts, and the driver's memory hardly at all."""
    driver = "peak_mb of driver"
    files, manifests = found["files"]["points"], found["manifests"]["points"]
    more = (manifests[-1][driver] - manifests[-2][driver]) * 1e6
    met: dict[str, tuple[float, str, float]] = {
        f"driver's peak MB, {files[-1]['files']:,} files": (files[-1][driver], "<=", 250),
        "driver's bytes a manifest": (
            round(more / (manifests[-1]["manifests"] - manifests[-2]["manifests"])),
            "<=",
            1024,
        ),
    }
    for name in ("files", "manifests", "partitions"):
        for number in ("seconds", "processor_seconds", "requests"):
            line = found[name]["fits"].get(number)
            if line is not None:
                met[f"{number} over {name}, last exponent"] = (line["last_exponent"], "<=", 1.05)
    for one in found["workers"]["points"][1:]:
        met[f"efficiency of {one['workers']} workers"] = (round(one["efficiency"], 3), ">=", 0.9)
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small jobs, in about two minutes")
    parser.add_argument("--only", choices=series(0, 0), help="one series, whose result is not saved")
    parser.add_argument("--commit", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.commit:
        base, shape = arguments.commit
        print(json.dumps(commit_all(Path(base), Shape(**json.loads(shape)))))
        return
    shapes = series(100_000, 10_000, 1) if arguments.quick else series(10_000_000, 100_000)
    if arguments.only:
        print(json.dumps(run(arguments.only, shapes[arguments.only]), indent=1))
        return
    found = {name: run(name, one) for name, one in shapes.items()}
    saved = "growth_quick" if arguments.quick else "growth"
    harness.save(saved, __doc__ or "", {"series": found}, bars(found))


if __name__ == "__main__":
    main()
