"""All committers beside each other, in turns: which is faster, where, and what does each cost?

A job is written anew for each commit, with tasks that have ended; what is measured is the commit of the
job, from call to return. Hadoop 3.5's committers run in one JVM that has warmed up, on the file system
that has the price of `harness.PricedStore`. Stores: local files behind 20 ms a request, local files,
HDFS on this machine, and S3, 35 ms away. All committers that can have several requests in flight have
as many, 32 or 128: Hadoop's default is 32, ours 32 threads or 16 for each Ray worker. On S3, S3A's magic
committer has its default threads.

v1 and a loop of fsspec's `mv` make one request after another: at 20 ms their requests are counted on
local files, and 20 ms each is added to the time there (`computed`). v2 moves files when its tasks
commit, 32 tasks at once: this is `tasks_seconds`.

The published commit had 94,499 files, one of each task, and took 4 h 28 min in v1's loop. The price of a
request is chosen, in whole milliseconds, so that v1, by the number of its requests, takes as long. With
that price, and 128 requests in flight, it is then committed by the others. At last Spark itself
overwrites 200 partitions dynamically, end to end.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness
import s3_commits
import spark_jobs
from peer_committers import (
    COLD,
    MANIFEST,
    ROOT,
    THREADS,
    V1,
    V2,
    WARM,
    Committer,
    FileOutput,
    HadoopManifest,
    Jvm,
    Moves,
    Ours,
    hadoop,
)
from peer_jobs import Place, Shape
from s3_server import s3_server

from ray_committer import CommitOptions
from ray_committer.executors.ray.executor import RayPool
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.registry import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.spark.metered_job import MeteredJob
from tests.servers.hdfs import hdfs_server
from tests.servers.s3a import S3AJvm, s3a_jvm

ROUNDS = 3
IN_FLIGHT, MANY_IN_FLIGHT = 32, 128
WORKERS = 4
MILLIS = 20
S3_SECONDS = 0.035
PUBLISHED_SECONDS = (4 * 60 + 28) * 60.0
SMALL, LARGE, ONES = SHAPES = Shape(1, 2), Shape(20, 500), Shape(2_000, 1)
EXISTING, WIDE = Shape(20, 500, existing=True), Shape(200, 500, partitions=500)
PUBLISHED_JOB, ON_S3 = Shape(94_499, 1), Shape(20, 100)

NETWORK, MANY, LOCAL, HDFS, PUBLISHED, S3, SPARK = (
    "20 ms", "20 ms, 128 in flight", "local files", "HDFS", "the published commit", "S3, 35 ms",
    "Spark, 20 ms",
)  # fmt: skip
S3A = "S3A's magic committer"
IN_SPARK = {
    "v1": "Spark's default", "manifest": MANIFEST, "ours": THREADS, "ours on Ray": WARM,
}  # fmt: skip
PARTITIONS = "200 partitions"


def alternate(
    place: Place, shape: Shape, committers: list[Committer], rounds: int = ROUNDS
) -> dict[str, Any]:
    """Commit by all in turns."""
    found: dict[str, list[dict[str, float]]] = {one.name: [] for one in committers}
    for number in range(rounds):
        first = number % len(committers)
        for one in committers[first:] + committers[:first]:
            found[one.name].append(one.measure(place, shape))
    place.clear()
    medians = {name: harness.medians(all_) for name, all_ in found.items()}
    for name, median in medians.items():
        print(f"{place.name}, {shape}: {name}: {median}", flush=True)
    return {name: {"rounds": found[name], "median": medians[name]} for name in found}


def priced(found: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What one request after another takes, if each of those counted takes `seconds`."""
    local = found["median"]
    took = local["seconds"] + local["requests"] * seconds
    median = {"seconds": round(took, 2), "requests": local["requests"]}
    return {"median": median, "computed": True}


@contextmanager
def hdfs_place() -> Iterator[Place]:
    # With one copy of a block, who has written it asks for its end before the DataNode has told the
    # NameNode of it, and sleeps for half a second. With more copies another one has told it by then.
    with hdfs_server(datanodes=3) as server:
        store = open_store(StoreSpec("hdfs", server.direct_authority))
        yield Place(HDFS, f"hdfs://{server.direct_authority}/table", "/table", store, threads=IN_FLIGHT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts to measure; nothing is saved")
    only = parser.parse_args().only
    root = tempfile.mkdtemp(prefix="peers-")
    # PySpark starts a JVM by a fork, which can hang once this process has threads: S3A's is the first.
    with s3a_jvm(Path(root)) as s3a, hadoop() as jvm, harness.local_ray():
        pool = RayPool(CommitOptions(workers=WORKERS))
        bench = Bench(Path(root), jvm, s3a, pool)
        for one in (*bench.at_once(IN_FLIGHT), *bench.one_by_one()):  # to warm up
            one.measure(bench.local(LOCAL), LARGE)
        found = {name: part(bench) for name, part in PARTS.items() if only is None or name in only}
        pool.close()
    shutil.rmtree(root)
    if only is None:
        found[SPARK] = in_spark()
        price = found[PUBLISHED].pop("seconds_a_request")
        harness.save(
            "peers", __doc__, {"commits": found, "published_seconds_a_request": price}, bars(found)
        )


class Bench:
    """What all parts need: a directory, the JVMs, and four Ray workers that are ready."""

    def __init__(self, root: Path, jvm: Jvm, s3a: S3AJvm, pool: RayPool) -> None:
        self.jvm = jvm
        self.s3a = s3a
        self.pool = pool
        self._root = root

    def local(self, name: str, seconds: float = 0.0) -> Place:
        path = f"{self._root}/table"
        return Place(name, f"file://{path}", path, LocalStore(StoreSpec("file")), seconds)

    def at_once(self, in_flight: int) -> list[Committer]:
        """The committers that have several requests in flight."""
        return [
            Ours(THREADS, in_flight),
            Ours(WARM, in_flight, WORKERS, self.pool),
            Ours(COLD, in_flight, WORKERS),
            HadoopManifest(self.jvm, in_flight),
        ]

    def one_by_one(self) -> list[Committer]:
        """The committers that make one request after another."""
        return [FileOutput(self.jvm, 1), FileOutput(self.jvm, 2), Moves()]


def behind_a_network(bench: Bench) -> dict[str, Any]:
    place, local = bench.local(NETWORK, MILLIS / 1000), bench.local(LOCAL)
    found = {}
    for shape in SHAPES:
        one_by_one: list[Committer] = [FileOutput(bench.jvm, 1), Moves()]
        on_local_files = alternate(local, shape, one_by_one, 1)
        found[str(shape)] = {
            **alternate(place, shape, bench.at_once(IN_FLIGHT)),
            **alternate(place, shape, [FileOutput(bench.jvm, 2)], 1),
            **{name: priced(one, place.seconds) for name, one in on_local_files.items()},
        }
    found[str(EXISTING)] = alternate(place, EXISTING, bench.at_once(IN_FLIGHT))
    return found


def many_in_flight(bench: Bench) -> dict[str, Any]:
    place, committers = bench.local(MANY, MILLIS / 1000), bench.at_once(MANY_IN_FLIGHT)
    found = {str(shape): alternate(place, shape, committers) for shape in (LARGE, EXISTING, ONES)}
    lasting = [one for one in committers if one.name in (THREADS, MANIFEST)]
    return {**found, str(WIDE): alternate(place, WIDE, lasting, 1)}


def local_files(bench: Bench) -> dict[str, Any]:
    place = bench.local(LOCAL)
    everyone = [*bench.at_once(IN_FLIGHT), *bench.one_by_one()]
    found = {str(shape): alternate(place, shape, everyone) for shape in SHAPES}
    most = [one for one in everyone if one.name not in (COLD, V2)]
    return {**found, str(PUBLISHED_JOB): alternate(place, PUBLISHED_JOB, most, 1)}


def on_hdfs(bench: Bench) -> dict[str, Any]:
    with hdfs_place() as place:  # to write a job there takes longer than to commit it
        found = {
            str(shape): {
                **alternate(place, shape, bench.at_once(IN_FLIGHT), 2),
                **alternate(place, shape, bench.one_by_one(), 1),
            }
            for shape in SHAPES
        }
        lasting = [one for one in bench.at_once(IN_FLIGHT) if one.name in (THREADS, MANIFEST)]
        return {**found, str(EXISTING): alternate(place, EXISTING, lasting, 2)}


def published(bench: Bench) -> dict[str, Any]:
    """The published job, with requests that take so long that v1's loop takes as long as it did."""
    one_by_one: list[Committer] = [FileOutput(bench.jvm, 1), Moves()]
    local = alternate(bench.local(LOCAL), PUBLISHED_JOB, one_by_one, 1)
    v1 = local[V1]["median"]
    seconds = math.ceil(1000 * (PUBLISHED_SECONDS - v1["seconds"]) / v1["requests"]) / 1000
    place = bench.local(PUBLISHED, seconds)
    in_parallel = [one for one in bench.at_once(MANY_IN_FLIGHT) if one.name != COLD]
    found = alternate(place, PUBLISHED_JOB, in_parallel, 1)
    computed = {name: priced(one, seconds) for name, one in local.items()}
    return {str(PUBLISHED_JOB): {**found, **computed}, "seconds_a_request": seconds}


def on_s3(bench: Bench) -> dict[str, Any]:
    """S3A's magic committer with its default threads, and ours with 128 in flight, on one server."""
    turns: dict[str, list[dict[str, float]]] = {S3A: [], THREADS: [], WARM: []}
    jobs = (ROUNDS + 1) * 2
    with s3_server(S3_SECONDS, jobs=jobs, tasks=ON_S3.tasks, files=ON_S3.files) as options:
        number = itertools.count()
        for turn in range(ROUNDS + 1):
            turns[S3A].append({"seconds": s3_commits.by_s3a(bench.s3a, options, turn)})
            for name, one in (
                (THREADS, CommitOptions(threads=MANY_IN_FLIGHT)),
                (WARM, CommitOptions(workers=WORKERS, worker_threads=MANY_IN_FLIGHT // WORKERS)),
            ):
                dest = f"s3://bucket/table-{next(number)}"
                executor = bench.pool if name == WARM else "threads"
                taken = s3_commits.commit(dest, options, executor, one)
                turns[name].append({"seconds": taken["seconds"]})
    medians = {name: harness.medians(rounds[1:]) for name, rounds in turns.items()}
    print(medians, flush=True)
    return {
        str(ON_S3): {name: {"rounds": turns[name][1:], "median": one} for name, one in medians.items()}
    }


def in_spark() -> dict[str, Any]:
    """Seconds of a dynamic overwrite of 200 partitions with two files each, with its tasks."""
    found = {}
    python = str(ROOT / ".venv-spark4" / "bin" / "python")
    for committers in (spark_jobs.TURNS, spark_jobs.ON_RAY):
        jobs = [MeteredJob(one, "dynamic", MILLIS, 200, 2) for one in committers]
        for job, taken in zip(jobs, spark_jobs.in_one_driver(jobs, python=python), strict=True):
            found[IN_SPARK[job.committer]] = {"median": taken}
            print(job, taken, flush=True)
    return {PARTITIONS: found}


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    NETWORK: behind_a_network,
    MANY: many_in_flight,
    LOCAL: local_files,
    HDFS: on_hdfs,
    PUBLISHED: published,
    S3: on_s3,
}


def bars(found: dict[str, Any]) -> dict[str, tuple[float, str, float]]:
    """What earlier benchmarks of single things promise, in this one run."""

    def seconds(place: str, shape: str, name: str, what: str = "seconds") -> float:
        return float(found[place][shape][name]["median"][what])

    def ratio(place: str, shape: Shape) -> float:
        taken = [seconds(place, str(shape), name) for name in (THREADS, MANIFEST)]
        return round(taken[0] / taken[1], 3)

    def times(name: str, ours: str, what: str) -> float:
        return round(seconds(SPARK, PARTITIONS, name, what) / seconds(SPARK, PARTITIONS, ours, what), 2)

    on_s3_ = {name: seconds(S3, str(ON_S3), name) for name in (S3A, THREADS, WARM)}
    most = {
        (NETWORK, SMALL): 0.5,
        (NETWORK, ONES): 0.45,
        (MANY, ONES): 0.5,
        (NETWORK, EXISTING): 1.0,
        (MANY, EXISTING): 1.05,
        (MANY, WIDE): 1.0,
        (PUBLISHED, PUBLISHED_JOB): 0.45,
        (HDFS, ONES): 0.6,
        (HDFS, EXISTING): 0.9,
    }
    of_hadoop: dict[str, tuple[float, str, float]] = {
        f"of Hadoop's time, {shape}, {place}": (ratio(place, shape), "<=", bar)
        for (place, shape), bar in most.items()
    }
    return of_hadoop | {
        f"seconds, {SMALL}, {LOCAL}": (seconds(LOCAL, str(SMALL), THREADS), "<=", 0.01),
        "S3A's time, of ours in threads": (round(on_s3_[S3A] / on_s3_[THREADS], 1), ">=", 7.5),
        "S3A's time, of ours on Ray": (round(on_s3_[S3A] / on_s3_[WARM], 1), ">=", 7.5),
        "Spark's dynamic overwrite, its commit, of ours": (
            times(IN_SPARK["v1"], THREADS, "commit_seconds"), ">=", 10.0,
        ),
        "Spark's dynamic overwrite, end to end, of ours": (
            times(IN_SPARK["v1"], THREADS, "seconds"), ">=", 1.0,
        ),
    }  # fmt: skip


if __name__ == "__main__":
    main()
