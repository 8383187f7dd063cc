"""How long does a commit take with more workers, how many are enough, and what does a fault cost?

Simulated by `benchmarks/simulation`, not measured: each store with the latency and the limit of
`jobs/estimate.py`. Tasks of 1,000 files each write to 1,000 partitions, and each worker has as many
requests in flight as by default. Files are moved one by one, as into partitions that exist; Azure and
HDFS put new partitions in place whole, so these have a curve of their own. A warm bucket of Google takes
16 times as much as a cold one, which is what it takes after 80 minutes of load by Google's own rule; 16
prefixes on S3 take 16 times as much as one. The NameNode of HDFS has no limit here, because none is
published. Faults are those of 10^8 files on 1,024 workers: ten workers take eight times as long, or are
lost when half of the files are moved, or the driver is lost then and the same command is run again. Each
simulated commit of 10^8 files takes some seconds of one core.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import harness
from simulation.inputs import Job, Setup
from simulation.simulate import simulate, simulate_lost_driver
from simulation.stores import ADLS, GCS, HDFS, S3, Store
from simulation.workers import enough_workers

from ray_committer import CommitOptions
from ray_committer.jobs.estimate import dollars

IN_FLIGHT = CommitOptions().worker_threads
FILES = (10**6, 10**8)
WORKERS = (1, 4, 16, 64, 256, 1_024)
PARTITIONS = FILES_A_TASK = 1_000
MANY, MOST_WORKERS, FEW = FILES[-1], WORKERS[-1], 10
AZURE = "Azure, one account"
NEAR = 1.10


def times_the_limit(store: Store, times: int) -> Store:
    """The store with a limit so many times as high."""
    assert store.limit is not None
    limit = store.limit
    name = f"{times} times {limit.name}"
    higher = replace(limit, reads=limit.reads * times, writes=limit.writes * times, name=name)
    return replace(store, limit=higher)


CASES = {
    AZURE: ADLS,
    "Google, a cold bucket": GCS,
    "Google, a warm bucket": times_the_limit(GCS, 16),
    "S3, one prefix": S3,
    "S3, 16 prefixes": times_the_limit(S3, 16),
    "HDFS, no limit": HDFS,
}


MOVES_WHOLE = (AZURE, "HDFS, no limit")


def job(files: int, *, whole: bool = False) -> Job:
    return Job(files, files // FILES_A_TASK, PARTITIONS, go_whole=whole)


def setup(store: Store, workers: int) -> Setup:
    return Setup(store, store.latency, IN_FLIGHT, workers)


def curve(files: int, name: str, *, whole: bool = False) -> dict[str, Any]:
    """Seconds by number of workers, the requests and their price, and how many workers are enough."""
    store, output = CASES[name], job(files, whole=whole)
    found = {workers: simulate(output, setup(store, workers)) for workers in WORKERS}
    last, enough = found[MOST_WORKERS], enough_workers(output, setup(store, MOST_WORKERS))
    price = dollars(last.requests, store)
    return {
        "seconds": {str(workers): round(one.seconds, 2) for workers, one in found.items()},
        "requests": round(sum(last.requests.values())),
        "dollars": None if price is None else round(price, 2),
        "enough": {
            "workers": enough.workers,
            "seconds": round(enough.seconds, 2),
            "reason": enough.reason,
        },
    }


def curves_of(processes: Executor, names: Collection[str], *, whole: bool = False) -> dict[str, Any]:
    """The curves of some cases, by number of files."""
    return {
        str(files): dict(
            zip(names, processes.map(partial(curve, files, whole=whole), names), strict=True)
        )
        for files in FILES
    }


def faults(name: str) -> dict[str, float]:
    """Seconds of a commit with each of the faults."""
    many, plain = job(MANY), setup(CASES[name], MOST_WORKERS)
    found = {
        "slow workers": simulate(many, replace(plain, slow=FEW)),
        "lost workers": simulate(many, replace(plain, lost=FEW)),
        "lost driver": simulate_lost_driver(many, plain),
    }
    return {fault: round(one.seconds, 2) for fault, one in found.items()}


def main() -> None:
    names = list(CASES)
    with ProcessPoolExecutor() as processes:
        curves, of_whole = curves_of(processes, names), curves_of(processes, MOVES_WHOLE, whole=True)
        with_faults = dict(zip(names, processes.map(faults, names), strict=True))
    for name, seconds in with_faults.items():
        seconds["none"] = curves[str(MANY)][name]["seconds"][str(MOST_WORKERS)]
    assert ADLS.limit is not None
    at_limit = with_faults[AZURE]["none"] * ADLS.limit.writes / MANY
    bars: dict[str, tuple[float, str, float]] = {
        "10^8 files on Azure with 1,024 workers, times the seconds of its limit": (
            round(at_limit, 3),
            "<=",
            NEAR,
        )
    }
    for fault in ("slow workers", "lost workers"):
        worst = max(one[fault] / one["none"] for one in with_faults.values())
        bars[f"1 % {fault}, times the seconds without, worst store"] = (round(worst, 3), "<=", NEAR)
    harness.save(
        "estimates",
        __doc__ or "",
        {"in_flight": IN_FLIGHT, "curves": curves, "whole": of_whole, "faults": with_faults},
        bars,
    )


if __name__ == "__main__":
    main()
