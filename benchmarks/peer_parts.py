"""The parts of `peers.py`: each compares committers at one place, in one go."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import harness
import s3_commits
import spark_jobs
from peer_bars import (
    APART,
    EXISTING,
    HDFS,
    IN_SPARK,
    LARGE,
    LOCAL,
    MANY,
    NETWORK,
    ON_S3,
    ONES,
    PARTITIONS,
    PUBLISHED,
    PUBLISHED_JOB,
    S3,
    S3A,
    SHAPES,
    WIDE,
)
from peer_committers import ALONE, COLD, ROOT, THREADS, WARM, Committer, Moves, Ours
from peer_hadoop import MANIFEST, V1, FileOutput, HadoopManifest, Jvm
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
from tests.servers.s3a import S3AJvm

ROUNDS, MORE_ROUNDS = 3, 5
ONCE: tuple[str, ...] = (COLD,)
"""The start of workers takes most of its time, and hardly differs from round to round."""
SLOW_ONCE = (COLD, ALONE, MANIFEST)
"""Where a request takes its time, and Hadoop's commit so many of them that it hardly differs either."""
IN_FLIGHT, MANY_IN_FLIGHT = 32, 128
WORKERS = 4
MILLIS = 20
S3_SECONDS = 0.035
PUBLISHED_SECONDS = (4 * 60 + 28) * 60.0


def alternate(
    place: Place,
    shape: Shape,
    committers: list[Committer],
    rounds: int = ROUNDS,
    once: Collection[str] = ONCE,
) -> dict[str, Any]:
    """Commit by all in turns; by those named `once` only in the first."""
    found: dict[str, list[dict[str, float]]] = {one.name: [] for one in committers}
    for number in range(rounds):
        first = number % len(committers)
        for one in committers[first:] + committers[:first]:
            if not number or one.name not in once:
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

    def lasting(self, in_flight: int) -> list[Committer]:
        """Those of them for shapes of which a job takes long to write, or that differ in requests."""
        return [Ours(THREADS, in_flight), HadoopManifest(self.jvm, in_flight)]

    def one_by_one(self) -> list[Committer]:
        """The committers that make one request after another."""
        return [FileOutput(self.jvm, 1), FileOutput(self.jvm, 2), Moves()]

    @cached_property
    def published_one_by_one(self) -> dict[str, Any]:
        """Their commits of the published job on local files, whose requests are counted."""
        return alternate(self.local(LOCAL), PUBLISHED_JOB, [FileOutput(self.jvm, 1), Moves()], 1)


def behind_a_network(bench: Bench) -> dict[str, Any]:
    place, local = bench.local(NETWORK, MILLIS / 1000), bench.local(LOCAL)
    found = {}
    for shape in SHAPES:
        at_once, once = bench.at_once(IN_FLIGHT), ONCE
        if shape is LARGE:
            at_once.append(Ours(ALONE, IN_FLIGHT, reads_manifests=True))
            once = SLOW_ONCE
        one_by_one: list[Committer] = [FileOutput(bench.jvm, 1), Moves()]
        on_local_files = alternate(local, shape, one_by_one, 1)
        found[str(shape)] = {
            **alternate(place, shape, at_once, once=once),
            **alternate(place, shape, [FileOutput(bench.jvm, 2)], 1),
            **{name: priced(one, place.seconds) for name, one in on_local_files.items()},
        }
    found[str(EXISTING)] = alternate(place, EXISTING, bench.at_once(IN_FLIGHT))
    return found | {str(one): alternate(place, one, bench.lasting(IN_FLIGHT)) for one in APART}


def many_in_flight(bench: Bench) -> dict[str, Any]:
    place, committers = bench.local(MANY, MILLIS / 1000), bench.at_once(MANY_IN_FLIGHT)
    found = {str(shape): alternate(place, shape, committers) for shape in (LARGE, EXISTING, ONES)}
    wide = alternate(place, WIDE, bench.lasting(MANY_IN_FLIGHT), once=SLOW_ONCE)
    return {**found, str(WIDE): wide}


def local_files(bench: Bench) -> dict[str, Any]:
    place = bench.local(LOCAL)
    everyone = [*bench.at_once(IN_FLIGHT), *bench.one_by_one()]
    found = {str(shape): alternate(place, shape, everyone) for shape in SHAPES}
    most = [one for one in bench.at_once(IN_FLIGHT) if one.name != COLD]
    published = alternate(place, PUBLISHED_JOB, most, 1) | bench.published_one_by_one
    return {**found, str(PUBLISHED_JOB): published}


def on_hdfs(bench: Bench) -> dict[str, Any]:
    def rounds_of(shape: Shape) -> int:  # a file's end that comes too early costs half a second there
        return MORE_ROUNDS if shape is LARGE else ROUNDS

    one_by_one: list[Committer] = [FileOutput(bench.jvm, 1), Moves()]
    with hdfs_place() as place:  # to write a job there takes longer than to commit it
        found = {
            str(shape): {
                **alternate(place, shape, bench.at_once(IN_FLIGHT), rounds_of(shape), (COLD, WARM)),
                **alternate(place, shape, one_by_one, 1),
            }
            for shape in SHAPES
        }
        return {**found, str(EXISTING): alternate(place, EXISTING, bench.lasting(IN_FLIGHT))}


def published(bench: Bench) -> dict[str, Any]:
    """The published job, with requests that take so long that v1's loop takes as long as it did."""
    local = bench.published_one_by_one
    v1 = local[V1]["median"]
    seconds = math.ceil(1000 * (PUBLISHED_SECONDS - v1["seconds"]) / v1["requests"]) / 1000
    print(f"{PUBLISHED}: a request takes {seconds} s")
    place = bench.local(PUBLISHED, seconds)
    in_parallel = [one for one in bench.at_once(MANY_IN_FLIGHT) if one.name != COLD]
    found = alternate(place, PUBLISHED_JOB, in_parallel, 1)
    computed = {name: priced(one, seconds) for name, one in local.items()}
    return {str(PUBLISHED_JOB): {**found, **computed}}


def on_s3(bench: Bench) -> dict[str, Any]:
    """S3A's magic committer with its default threads, and ours with 128 in flight, on one server."""
    turns: dict[str, list[dict[str, float]]] = {S3A: [], THREADS: [], WARM: []}
    jobs = (ROUNDS + 1) * 2
    with s3_server(S3_SECONDS, jobs=jobs, tasks=ON_S3.tasks, files=ON_S3.files) as options:
        number = itertools.count()
        for turn in range(ROUNDS + 1):
            if turn < 2:  # it takes 20 s; the first is to warm up
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
