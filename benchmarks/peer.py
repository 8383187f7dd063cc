"""With equal requests in flight, what does a commit cost beside Hadoop's own manifest committer?

With 32 requests in flight: 1 task of 2 files, 20 of 100, 20 of 500 over ten directories, at 0 and at 20
ms a request; 2,000 and 20,000 tasks of a file each at 20 ms. With 128: 20 of 500. The two take turns,
each warmed up. The command ``--peer`` makes the peer's commits in a JVM of its own and prints one JSON
line for each of ``--repeat``, the first of which is cold, with ``commit_job_ms`` and the counts of
``job_ops``. Writing a file is two requests, its creation and its close, for both. At 0 ms ours are plain
local files.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness

import ray_committer
from ray_committer import CommitOptions
from ray_committer.executors.threads import ThreadsExecutor
from ray_committer.job_files.find_job import read_state_and_manifests
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

DIRECTORIES = 10
REPETITIONS = 3
"""So many commits each of the peer's processes makes, of which the last counts."""
OPTIONS = CommitOptions(validate=False)
LOCAL_SECONDS, REMOTE_SECONDS = 0.010, 0.340
"""What the smallest commit may take on local files, and at 20 ms a request."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A job, how long a request takes, and how many are in flight."""

    tasks: int
    files: int
    milliseconds: int
    threads: int = 32
    rounds: int = harness.ROUNDS

    @property
    def directories(self) -> int:
        return min(DIRECTORIES, self.files)

    def __str__(self) -> str:
        return f"{self.tasks}x{self.files} at {self.milliseconds} ms, {self.threads} in flight"


SMALL = {milliseconds: Shape(1, 2, milliseconds) for milliseconds in (0, 20)}
LARGE = {threads: Shape(20, 500, 20, threads) for threads in (32, 128)}
ONE_FILE_TASKS = (Shape(2_000, 1, 20), Shape(20_000, 1, 20, rounds=1))
OTHERS = (Shape(20, 100, 0), Shape(20, 100, 20), Shape(20, 500, 0))


def measure(root: Path, shape: Shape) -> dict[str, float]:
    job = harness.write_job(root, tasks=shape.tasks, files=shape.files, directories=shape.directories)
    if not shape.milliseconds:
        begun = time.perf_counter()
        ray_committer.commit_job(str(root), job.job_id, options=OPTIONS)
        return {"commit_seconds": time.perf_counter() - begun}
    store = harness.PricedStore(shape.milliseconds / 1000)
    executor = ThreadsExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True), threads=shape.threads
    )
    begun = time.perf_counter()
    state = read_state_and_manifests(store, job)
    run_commit(store, job, OPTIONS, executor=executor, state=state)
    executor.close()
    seconds = time.perf_counter() - begun
    return {"commit_seconds": seconds, "requests": len(store.requests) + store.requests.count("write")}


def measure_peer(root: Path, command: Sequence[str], shape: Shape) -> dict[str, float]:
    """The peer's last commit in a JVM of its own."""
    arguments = {
        "tasks": shape.tasks,
        "files": shape.files,
        "dirs": shape.directories,
        "latency-ms": shape.milliseconds,
        "threads": shape.threads,
        "task-threads": min(256, max(8, shape.tasks)),
        "repeat": REPETITIONS,
        "base": root,
    }
    run = subprocess.run(
        [*command, *(f"--{name}={value}" for name, value in arguments.items())],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == REPETITIONS
    return {
        "commit_seconds": lines[-1]["commit_job_ms"] / 1000,
        "requests": sum(lines[-1]["job_ops"].values()),
        "cold_seconds": lines[0]["commit_job_ms"] / 1000,
    }


def alternate(root: Path, command: Sequence[str], shape: Shape) -> dict[str, Any]:
    """What both cost, in turns."""
    measure(root / "ours", shape)
    ours, theirs = [], []
    for _ in range(shape.rounds):
        theirs.append(measure_peer(root / "theirs", command, shape))
        ours.append(measure(root / "ours", shape))
    named = {"ours": ours, "hadoop": theirs}
    return {who: {"rounds": found, "median": harness.medians(found)} for who, found in named.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=shlex.split, required=True)
    command = parser.parse_args().peer
    root = Path(tempfile.mkdtemp(prefix="peer-"))
    found: dict[str, Any] = {}
    for shape in (*SMALL.values(), *OTHERS, *LARGE.values(), *ONE_FILE_TASKS):
        found[str(shape)] = alternate(root, command, shape)
        print(shape, {who: one["median"] for who, one in found[str(shape)].items()})

    def seconds(shape: Shape, who: str = "ours") -> float:
        return float(found[str(shape)][who]["median"]["commit_seconds"])

    def ratio(shape: Shape) -> float:
        return round(seconds(shape) / seconds(shape, "hadoop"), 3)

    harness.save(
        "peer",
        __doc__,
        {"commits": found},
        {
            **{f"of Hadoop's time, {shape}": (ratio(shape), "<=", 0.92) for shape in LARGE.values()},
            **{f"of Hadoop's time, {shape}": (ratio(shape), "<=", 0.9) for shape in ONE_FILE_TASKS},
            f"seconds, {SMALL[20]}": (seconds(SMALL[20]), "<=", REMOTE_SECONDS),
            f"seconds, {SMALL[0]}": (seconds(SMALL[0]), "<=", LOCAL_SECONDS),
        },
    )


if __name__ == "__main__":
    main()
