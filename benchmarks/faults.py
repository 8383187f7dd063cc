"""How much time does a fault cost a commit?

20,000 files on a store of 35 ms a request, by four workers of 32 threads on two nodes of a Ray cluster
of this machine; the head has only the driver and the host. Each round has a commit without a fault and
one with each fault, in turn: seconds lost are those beyond the commit without a fault of the same round.
The workers are ready before a commit begins. What is killed is killed at half of the files; the
coordinator, when its directories are needed. A commit whose driver is killed is a whole command, and so
is the one that it is compared with; the same command runs again at once, on this machine, or as if on
another one, which cannot see that the first has ended. `recovered` files were looked at again, because
they were in place already; `refused` requests were made again after a 503, and `repeated` ones because
there was no answer. Where every tenth request is refused, the job has 1,000 files, as the commit takes
so long.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import ray
from ray.cluster_utils import Cluster
from straggler import DIRECTORIES, FILES_A_TASK, SECONDS, TASKS, THREADS, WORKERS, OpenOneSlow
from throttling import Refusing

from ray_committer import CommitOptions
from ray_committer.events import (
    CommitStarted,
    Event,
    EventSink,
    FilesRenamed,
    ShardRequeued,
    StageStarted,
    WorkerLost,
    WorkerStarted,
)
from ray_committer.executors.base import OpenResources, Readiness
from ray_committer.executors.ray.cluster import NAMESPACE
from ray_committer.executors.ray.executor import RayExecutor, RayPool
from ray_committer.limits.permits import Permits
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.testing import run_commit
from ray_committer.work.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.ray.jobs import commit_workers, processes
from tests.raylets import add_node, start_cluster

FEW_TASKS = 4
ROUNDS = 3
NODES, CPUS = 2, 2
REQUESTS_PER_SECOND = 5_000.0
"""More than the workers make, so that the limit itself costs nothing."""

NO_KILL = "none, as a command"

Measured = dict[str, float]


@dataclass(frozen=True, slots=True)
class OpenRefusing:
    """Opens a worker on a store that refuses a share of all requests."""

    job: JobAttempt
    share: float
    retry_after_seconds: float | None

    def store(self) -> Refusing:
        return Refusing(stray=self.share, seconds=SECONDS, retry_after_seconds=self.retry_after_seconds)

    def __call__(self, permits: Permits) -> Worker:
        return Worker(self.store(), self.job, permits, THREADS, in_driver=False)


class Watch:
    """Listens to a commit: strikes once, `when` an event is the one to strike at, and counts losses.

    It strikes in a thread of its own, so that the commit goes on meanwhile.
    """

    def __init__(self, when: Callable[[Event], bool], strike: Callable[[Watch], object] | None) -> None:
        self.workers: list[int] = []
        self.lost = self.requeued = 0
        self._when = when
        self._strike = strike
        self._threads = ThreadPoolExecutor(1)
        self._striking: Future[object] | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self.workers.append(event.process)
        self.lost += isinstance(event, WorkerLost)
        self.requeued += isinstance(event, ShardRequeued)
        if self._strike is not None and self._striking is None and self._when(event):
            self._striking = self._threads.submit(self._strike, self)

    def join(self) -> None:
        """Wait for the strike, which must have come."""
        if self._strike is not None:
            assert self._striking is not None, "the commit ended before its fault"
            self._striking.result()


def is_half(event: Event) -> bool:
    return isinstance(event, FilesRenamed) and event.done >= event.total / 2


def makes_directories(event: Event) -> bool:
    return isinstance(event, StageStarted) and event.stage == names.CREATE_DIRECTORIES


def kill_a_worker(_: Cluster, watch: Watch) -> None:
    os.kill(watch.workers[0], signal.SIGKILL)


def kill_a_node(cluster: Cluster, _: Watch) -> None:
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def kill_the_host(_: Cluster, __: Watch) -> None:
    (host,) = processes("CommitHost")
    os.kill(host, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong in a commit of `tasks` tasks."""

    kill: Callable[[Cluster, Watch], object] | None = None
    when: Callable[[Event], bool] = is_half
    refused: float = 0.0
    retry_after_seconds: float | None = None
    has_slow_worker: bool = False
    requests_per_second: float | None = None
    tasks: int = TASKS


FAULTS = {
    "worker": Fault(kill_a_worker),
    "node": Fault(kill_a_node),
    "coordinator": Fault(kill_the_host, when=makes_directories),
    "limit": Fault(kill_the_host, requests_per_second=REQUESTS_PER_SECOND),
    "refused-1": Fault(refused=0.01),
    "refused-1-retry-after": Fault(refused=0.01, retry_after_seconds=1.0),
    "slow-worker": Fault(has_slow_worker=True),
    "refused-10": Fault(refused=0.10, tasks=FEW_TASKS),
    "refused-10-retry-after": Fault(refused=0.10, retry_after_seconds=1.0, tasks=FEW_TASKS),
}
LONG = ("refused-10-retry-after",)
"""Takes minutes: measured only by its name."""
DRIVERS = {"driver": False, "driver-elsewhere": True}
"""Whether the command runs again as if on another machine."""
ONCE = ("driver-elsewhere",)
"""Measured in the first round only: it waits for half a minute, whatever the machine does."""


@contextmanager
def ray_cluster() -> Iterator[Cluster]:
    """A head without CPUs, and the nodes of the workers."""
    cluster = start_cluster({"num_cpus": 0}, *[{"num_cpus": CPUS}] * NODES)
    try:
        ray.init(
            address=cluster.address,
            log_to_driver=False,
            logging_level="error",
            namespace=NAMESPACE,
        )
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def prepare(cluster: Cluster, root: Path, tasks: int = TASKS) -> JobAttempt:
    """A fresh job, on a whole cluster on which no other commit is left."""
    while len(cluster.worker_nodes) < NODES:
        add_node(cluster, num_cpus=CPUS)
    cluster.wait_for_nodes()
    while commit_workers() or processes("CommitHost"):
        time.sleep(0.05)
    return harness.write_job(root, tasks=tasks, files=FILES_A_TASK, directories=DIRECTORIES)


def commit(
    opens: OpenResources,
    job: JobAttempt,
    store: harness.PricedStore,
    on_event: EventSink,
    *,
    pool: RayPool | None = None,
    requests_per_second: float | None = None,
) -> tuple[CommitResult, float]:
    """Commit a job on Ray: its result, and the seconds of the call."""
    options = CommitOptions(
        workers=WORKERS, worker_threads=THREADS, max_requests_per_second=requests_per_second
    )
    started = time.monotonic()
    executor = RayExecutor(opens, options, pool=pool)
    executor.listen(on_event)
    try:
        result = run_commit(store, job, options, executor=executor, on_event=on_event)
    finally:
        executor.close()
    return result, time.monotonic() - started


def measure(cluster: Cluster, root: Path, fault: Fault) -> Measured:
    """One commit with a fault."""
    job = prepare(cluster, root, fault.tasks)
    pool = RayPool(CommitOptions(workers=WORKERS))
    while pool.readiness() is not Readiness.READY:
        time.sleep(0.05)
    mark = root.parent / "slow"
    mark.unlink(missing_ok=True)
    opens = OpenRefusing(job, fault.refused, fault.retry_after_seconds)
    kill = fault.kill
    watch = Watch(fault.when, None if kill is None else lambda watch: kill(cluster, watch))
    try:
        result, seconds = commit(
            OpenOneSlow(job, mark) if fault.has_slow_worker else opens,
            job,
            opens.store(),
            watch,
            pool=pool,
            requests_per_second=fault.requests_per_second,
        )
        watch.join()
    finally:
        pool.close()
    require_complete(root, result.moved + sum(result.proved.values()), fault.tasks)
    return {
        "seconds": seconds,
        **counts(result),
        "workers_lost": watch.lost,
        "shards_again": watch.requeued,
    }


def counts(result: CommitResult) -> Measured:
    return {
        "moved": result.moved,
        "recovered": sum(result.proved.values()),
        "refused": result.throttled,
        "repeated": result.retries,
    }


def require_complete(root: Path, counted: float, tasks: int = TASKS) -> None:
    """Check that each file is in its place and was counted once, and that nothing else is left."""
    found = {f"{path.parent.name}/{path.name}" for path in root.glob("p=*/part-*")}
    wanted = {
        f"p={number % DIRECTORIES}/part-{task:05d}-{number:05d}"
        for task in range(tasks)
        for number in range(FILES_A_TASK)
    }
    assert found == wanted
    assert counted == len(wanted), f"{counted} of {len(wanted)} files were counted"
    assert (root / "_SUCCESS").exists()
    assert not (root / "_temporary").exists()


def command(address: str, root: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the commit of a job as a command."""
    return subprocess.Popen(
        [sys.executable, __file__, "--commit", str(root), *arguments],
        env={**os.environ, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE,
        text=True,
    )


def run_command(cluster: Cluster, root: Path, *arguments: str) -> Measured:
    """Run such a command to its end: what it printed, and its seconds."""
    started = time.monotonic()
    process = command(cluster.address, root, *arguments)
    output, _ = process.communicate()
    assert process.returncode == 0
    return {**json.loads(output.splitlines()[-1]), "seconds": time.monotonic() - started}


def measure_command(cluster: Cluster, root: Path) -> Measured:
    """One command without a fault."""
    prepare(cluster, root)
    found = run_command(cluster, root)
    require_complete(root, found["moved"])
    return found


def measure_driver(cluster: Cluster, root: Path, *, is_elsewhere: bool) -> Measured:
    """A command that is killed at half of its files, and the same command again."""
    prepare(cluster, root)
    started = time.monotonic()
    with command(cluster.address, root) as first:
        assert first.stdout is not None
        assert any(line == "half\n" for line in first.stdout)
        first.kill()
    killed = time.monotonic()
    second = run_command(cluster, root, *(["--elsewhere"] if is_elsewhere else []))
    seconds = time.monotonic() - started
    require_complete(root, second["moved"] + second["recovered"])
    return {
        **second,
        "seconds": seconds,
        "first_seconds": killed - started,
        "second_seconds": second["seconds"],
    }


def run_as_command(root: Path, *, is_elsewhere: bool) -> None:
    """Commit the job of `root`; print when half of its files are in place, and the result."""
    if is_elsewhere:
        platform.node = lambda: "elsewhere"
    at: dict[str, float] = {}

    def listen(event: Event) -> None:
        if is_half(event) and "half" not in at:
            print("half", flush=True)
            at["half"] = time.monotonic()
        if isinstance(event, CommitStarted):
            at["begun"] = time.monotonic()
        if isinstance(event, StageStarted) and event.stage == names.START_WORKERS:
            at.setdefault("goes_on", time.monotonic())

    job = new_job_attempt(str(root), "job_1", 0)
    opens = OpenRefusing(job, 0.0, None)
    result, _ = commit(opens, job, opens.store(), listen)
    print(json.dumps({**counts(result), "waited_seconds": at["goes_on"] - at["begun"]}))


def measure_round(cluster: Cluster, root: Path, chosen: list[str]) -> dict[str, Measured]:
    """Each fault once, and before them what they are compared with."""
    found: dict[str, Measured] = {}

    def note(name: str, measured: Measured, of: str | None = None) -> None:
        plain = found[of]["seconds"] if of else measured["seconds"]
        lost = {"seconds_lost": measured["seconds"] - plain, "times": measured["seconds"] / plain}
        found[name] = {**lost, **measured}
        print(name, {key: round(value, 2) for key, value in found[name].items()}, flush=True)

    faults = {name: FAULTS[name] for name in chosen if name in FAULTS}
    for tasks in sorted({fault.tasks for fault in faults.values()}, reverse=True):
        note(none(tasks), measure(cluster, root, Fault(tasks=tasks)))
    for name, fault in faults.items():
        note(name, measure(cluster, root, fault), none(fault.tasks))
    drivers = [name for name in chosen if name in DRIVERS]
    if drivers:
        note(NO_KILL, measure_command(cluster, root))
    for name in drivers:
        note(name, measure_driver(cluster, root, is_elsewhere=DRIVERS[name]), NO_KILL)
    return found


def none(tasks: int) -> str:
    return f"none, {tasks * FILES_A_TASK:,} files"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = [*FAULTS, *DRIVERS]
    usual = [name for name in known if name not in LONG]
    parser.add_argument("--only", nargs="+", choices=known, help="faults to measure; saves nothing")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--commit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--elsewhere", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.commit:
        run_as_command(given.commit, is_elsewhere=given.elsewhere)
        return
    directory = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        with ray_cluster() as cluster:
            measure(cluster, directory / "table", Fault())
            chosen = given.only or usual
            again = [name for name in chosen if name not in ONCE]
            rounds = [
                measure_round(cluster, directory / "table", again if number else chosen)
                for number in range(given.rounds)
            ]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found: dict[str, Any] = {
        name: {"rounds": of_all, "median": harness.medians(of_all)}
        for name in rounds[0]
        for of_all in [[one[name] for one in rounds if name in one]]
    }
    print(json.dumps({name: one["median"] for name, one in found.items()}, indent=1))
    if given.only is None:
        times = max(found[name]["median"]["times"] for name in ("refused-1", "refused-1-retry-after"))
        bars = {"one in a hundred refused, times the seconds": (round(times, 2), "<=", 1.3)}
        harness.save("faults", __doc__ or "", {"faults": found}, bars)


if __name__ == "__main__":
    main()
