"""An estimate by formulas: near what real commits request, and near the simulation of commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.simulation import inputs, stores
from benchmarks.simulation.simulate import simulate
from ray_committer import CommitOptions
from ray_committer.jobs.estimate import (
    LIST,
    MKDIRS,
    MOVE,
    NEAR,
    OTHER,
    READ,
    STORES,
    WRITE,
    Job,
    Limit,
    Setup,
    Store,
    count_requests,
    dollars,
    enough_workers,
    estimate,
    turn,
)
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    Identity,
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)
from ray_committer.testing.harness import put_file
from tests.results import results_of
from tests.servers.fake_s3 import FakeS3, direct_store

KIND_OF = {
    "rename": MOVE,
    "move_whole": MOVE,
    "publish": MOVE,
    "read": READ,
    "read_state": READ,
    "write": WRITE,
    "create": WRITE,
    "mkdirs": MKDIRS,
}
"""The kinds of the store's operations; the others list, as their names say, or are `OTHER`."""
OFF = {"hdfs": 0, "abfs": 0, "gs": 4, "s3": 7}
"""How many requests, whatever the size of the job, are of another number or kind than in the formula."""
SHAPES = [(1, 1, 1), (5, 40, 4), (20, 20, 10), (40, 2, 2)]
WAYS = ["new", "existing", "of a command"]


def memory(identity: Identity, *, real: bool, cheap: bool = False) -> Callable[[], StoreOperations]:
    return lambda: MemoryStore(identity=identity, real_directories=real, listing_is_cheap=cheap)


REAL: dict[str, Callable[[], StoreOperations]] = {
    "hdfs": memory(Identity.MODIFICATION_TIME, real=True, cheap=True),
    "abfs": memory(Identity.ETAG, real=True),
    "gs": memory(Identity.GENERATION, real=False),
    "s3": lambda: direct_store(FakeS3()),
}


def requests(job: Job, store: Store) -> dict[str, int]:
    return count_requests(store, job)


def real_requests(
    store: StoreOperations, tasks: int, files: int, directories: int, *, way: str
) -> Counter[str]:
    """The requests of a commit by a driver that has the results of tasks, of files in directories that
    these share, to new directories or `existing` ones; or by a command, of files in the directories of
    their tasks."""
    job = new_job_attempt("/bucket/table", "job_1", 0)
    has_results = way != "of a command"
    tokens = {task: f"-{task:08x}{0:08x}" if has_results else "" for task in range(tasks)}
    for number in range(directories if way == "existing" else 0):
        put_file(store, f"/bucket/table/p={number}/old", b"")
    written = {
        task: {f"p={task % directories}/f-{task}-{n}{tokens[task]}": b"x" for n in range(files)}
        for task in range(tasks)
    }
    write_job(store, job, written)
    results = tuple(results_of(store, job)) if has_results else None
    calls: list[StoreCall] = []
    wrapped = WrappedStore(store, before=calls.append)
    wrapped.capabilities = replace(wrapped.capabilities, deletes_trees=True)  # the double deletes names
    run_commit(wrapped, job, CommitOptions(expected_tasks=tasks, committed_tasks=results))
    return Counter(map(kind_of, calls))


def kind_of(call: StoreCall) -> str:
    if call.operation.startswith(("list", "find_names")):
        return LIST
    is_freeze = call.operation == "move_whole" and "/_temporary/" in call.paths[-1]
    return OTHER if is_freeze else KIND_OF.get(call.operation, OTHER)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(("tasks", "files", "directories"), SHAPES)
def test_an_estimate_names_the_requests_of_a_real_commit(
    name: str, tasks: int, files: int, directories: int, way: str
):
    real, store = real_requests(REAL[name](), tasks, files, directories, way=way), STORES[name]
    job = Job(tasks * files, tasks, directories)
    if way != "of a command":
        job = replace(job, sources=directories, has_results=True)
    if way == "existing":
        job = replace(job, existing=directories)
    elif way == "new" and store.makes_directories:
        job = replace(job, whole=directories, whole_files=job.files)
    found = requests(job, store)
    off = {kind: found[kind] - real[kind] for kind in found}
    assert sum(map(abs, off.values())) == OFF[name], (off, real)


WHOLE = Job(1_000_000, 1_000, 1_000, sources=1_000, has_results=True, whole=1_000, whole_files=1_000_000)
POINTS = [
    ("file", Job(1_000_000, 10_000, 100), None, None),
    ("hdfs", Job(2_000, 2_000, 1), None, None),
    ("hdfs", Job(1_000_000, 1_000, 1_000), 8, None),
    ("hdfs", Job(1_000_000, 1_000, 1_000), 64, None),
    ("file", WHOLE, None, None),
    ("hdfs", WHOLE, 8, None),
    ("abfs", WHOLE, None, None),
    ("abfs", Job(94_499, 94_499, 1), 16, 0.043),
    ("abfs", Job(1_000_000, 1_000, 1_000), 1_024, None),
    ("gs", Job(2_000, 20, 10), None, None),
    ("gs", Job(100_000, 1_000, 100), 8, None),
    ("gs", Job(94_499, 94_499, 1), 16, None),
    ("s3", Job(20_000, 20_000, 2_000), 4, None),
]
SIMULATED = {
    "file": stores.FILE,
    "hdfs": stores.HDFS,
    "abfs": stores.ADLS,
    "gs": stores.GCS,
    "s3": stores.S3,
}


@pytest.mark.parametrize(("name", "job", "workers", "latency"), POINTS)
def test_formulas_are_near_the_simulation(
    name: str, job: Job, workers: int | None, latency: float | None
):
    """Measured: 0.82 to 1.02 times the seconds of the simulation, 0.97 to 1.00 times its requests."""
    store, in_flight = STORES[name], 16 if workers else 32
    setup = Setup(store, store.latency if latency is None else latency, in_flight, workers)
    if store.is_local:
        setup = replace(setup, in_flight=1)
    simulated = simulate(
        inputs.Job(job.files, job.tasks, job.directories, go_whole=bool(job.whole)),
        inputs.Setup(SIMULATED[name], setup.latency, in_flight, workers, is_driver=job.has_results),
    )
    assert estimate(job, setup).seconds == pytest.approx(simulated.seconds, rel=0.20)
    total = sum(requests(job, store).values())
    assert total == pytest.approx(sum(simulated.requests.values()), rel=0.05)


HDFS, GCS, S3 = STORES["hdfs"], STORES["gs"], STORES["s3"]
MANY = Job(100_000, 400, 100)


@pytest.mark.parametrize("store", STORES.values(), ids=STORES.keys())
def test_more_in_flight_hardly_ever_takes_longer(store: Store):
    job = Job(20_000, 200, 20)
    few, more, many = (estimate(job, Setup(store, store.latency, n)).seconds for n in (8, 16, 32))
    assert many <= 1.06 * more <= 1.06**2 * few  # where threads wait for the processor, one is rounded


@pytest.mark.parametrize(
    ("job", "setup", "reason"),
    [
        (Job(60_000, 60, 20), Setup(GCS, 0.05, 16), "the writes per second of the bucket"),
        (Job(60_000, 60, 20), Setup(S3, 0.05, 16), "the 3,500 writes per second of the prefix"),
        (Job(1_000_000, 1_000, 100), Setup(HDFS, 0.002, 16), "the driver"),
        (Job(200, 2, 1), Setup(HDFS, 0.05, 16), "follow one another"),
    ],
)
def test_more_workers_than_enough_gain_a_twentieth_at_most(job: Job, setup: Setup, reason: str):
    workers, enough = enough_workers(job, setup)
    assert reason in enough.waits_for
    many = estimate(job, replace(setup, workers=8 * workers))
    assert enough.seconds <= NEAR * many.seconds
    if workers > 1:
        fewer = estimate(job, replace(setup, workers=workers - 1))
        assert fewer.seconds > enough.seconds


def test_a_bucket_of_google_takes_more_and_more_writes():
    """A million moves would take 1,000 s at the rate of its begin."""
    found = estimate(Job(1_000_000, 1_000, 100), Setup(GCS, 0.05, 16, 64))
    assert 600 < found.seconds < 900
    limit = GCS.limit
    assert limit is not None
    assert limit.doubles is not None
    seconds = limit.seconds({MOVE: 10_000_000, READ: 0, LIST: 0})
    passed = sum(1_000 * 2 ** (second / limit.doubles) for second in range(round(seconds)))
    assert passed == pytest.approx(10_000_000, rel=0.001)


def test_a_given_limit_is_what_a_commit_waits_for():
    limited = replace(HDFS, limit=Limit(500, 500, "mine", are_one=True))
    found = estimate(MANY, Setup(limited, 0.002, 32, 4))
    assert found.waits_for == "mine"
    assert found.seconds == pytest.approx(MANY.files / 500, rel=0.03)


def test_a_price_is_that_of_the_requests():
    assert dollars({MOVE: 1_000_000, READ: 1_000, MKDIRS: 5}, S3) == pytest.approx(5.0004)
    assert dollars({MOVE: 1}, HDFS) is None


def test_threads_that_share_a_processor_wait_for_their_turn():
    assert turn(1, 0.02, 0.001) == pytest.approx(0.001)
    assert turn(64, 0.02, 0.001) > 0.02  # 64 ms of computing in each round of 20
    assert 0.02 + turn(64, 0.02, 0.001) == pytest.approx(64 * 0.001, rel=0.05)
    assert turn(64, 0.02, 0.0) == 0.0
