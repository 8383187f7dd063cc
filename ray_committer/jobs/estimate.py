"""How long a commit takes, which requests it makes and what they cost: formulas, which make no request.

They are about a commit without faults that appends (docs/protocol.md, "Cost in requests").
Processor times were measured on one machine; `benchmarks/simulation/costs.py` has their sources. Limits
and prices are those that providers have published: they can change them, and raise limits on request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ray_committer.protocol.pack import MOST_ENTRIES
from ray_committer.protocol.plan import LARGEST_BATCH, shard_size

MOVE, READ, LIST, WRITE, MKDIRS, OTHER = "move", "read", "list", "write", "make directory", "other"
"""The kinds of requests; others look at the state of the job, change it, or delete what is left."""
RENAME_SECONDS, LOCAL_RENAME_SECONDS = 49e-6, 22.5e-6
"""Processor time of a rename, without the store's client."""
FILE_SECONDS, MANIFEST_SECONDS, LISTING_SECONDS, PACK_SECONDS = 9e-6, 285e-6, 150e-6, 18e-6
"""Processor time per file of a manifest, per manifest, per listing, per file that a validation packs."""
REQUEST_SECONDS = 0.1e-3
"""How much later than the store answers a thread goes on."""
CALL_SECONDS, START_SECONDS, STAGE_SECONDS = 1.4e-3, 0.98, 0.05
"""On Ray: processor time of the driver per call of a worker; until the first one is ready; a stage."""
ABOVE = 2
"""Directories above a destination such as ``gs://bucket/a/table``: jobs are looked for in each."""
MOST_WORKERS, NEAR = 1024, 1.05
"""A number of workers is enough if the commit takes at most so many times as long as with the best."""

_ONCE = {READ: 2, LIST: 5, WRITE: 3, OTHER: 10}
_FREEZE = 2
"""The rename of the directory with the files of tasks, and a look whether it is the job's."""
_RIGHTS = 2
"""The rights of the directory of the tasks' files, and of the one in which new directories are made."""
_ROUNDS = 12
"""Requests of the driver that follow one another."""
_PAGE = 1000
"""Uploads, or files of all directories, in one answer of a store that lists them so."""
_FIND_SHARED = 2
"""Listings that show which directories tasks have shared."""
_LAST_SHARDS, _LAST_BATCHES = 10, 4
"""Calls get smaller near the end of a step: so many more per worker than if all were large."""
_ALONE = "requests that follow one another, which more workers do not make faster"
_FLIGHT = "its requests in flight, or processors"
_DRIVER = "the driver, which hands out the work and adds up the results"


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests per second that a store takes; it `doubles` every so many seconds under load."""

    reads: float
    writes: float
    name: str
    are_one: bool = False
    """Reads and writes count together."""
    doubles: float | None = None

    def seconds(self, requests: Mapping[str, int]) -> float:
        """How long the requests take that it lets pass."""
        reads = requests[READ] + requests[LIST]
        writes = sum(requests.values()) - reads
        if self.are_one:
            return (reads + writes) / self.writes
        seconds = max(reads / self.reads, writes / self.writes)
        if self.doubles is None:
            return seconds
        growth = math.log(2) / self.doubles  # the integral of writes * e**(growth * seconds)
        return math.log1p(growth * seconds) / growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A kind of store. `latency`, an assumption, and `client`, processor time, are seconds per request;
    `serial_a_task` requests per task follow one another (pages of listings, deletions); `prices` are in
    dollars per 1,000 requests of each kind."""

    name: str
    latency: float = 0.05
    client: float = 0.0
    listing_is_cheap: bool = False
    makes_directories: bool = True
    lists_versions: bool = False
    lists_uploads: bool = False
    serial_a_task: float = 0.0
    limit: Limit | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    prices_from: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the kernel of one machine renames."""
        return not self.latency


@dataclass(frozen=True, slots=True)
class Job:
    """The output of a job: `files` of `tasks`, each with its files in one of the leaf `directories`.
    Before they are moved, they are in `sources` directories that tasks share, or, by default, in one of
    each task; none is looked at if there are 0. Manifests are read unless the driver `has_results` of
    its tasks. Of the directories, some are `existing`; others go `whole`, with `whole_files` files."""

    files: int
    tasks: int
    directories: int = 1
    sources: int | None = None
    has_results: bool = False
    existing: int = 0
    whole: int = 0
    whole_files: int = 0

    @property
    def moves(self) -> int:
        """The renames: of whole directories, and of files."""
        return self.whole + self.files - self.whole_files


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a job is committed: `workers` on Ray with `in_flight` requests each, or as many threads of
    the driver without workers. `latency` is in seconds per request."""

    store: Store
    latency: float
    in_flight: int
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a commit takes, and what it waits for."""

    seconds: float
    waits_for: str


def count_requests(
    store: Store, job: Job, *, validates: bool | None = None, above: int = ABOVE
) -> dict[str, int]:
    """The requests of a commit by kind."""
    looks = store.listing_is_cheap if validates is None else validates
    # One page of the parent shows which are new. One directory alone is asked for by its path.
    checks = int(job.directories == 1 and store.makes_directories and not store.listing_is_cheap)
    # If some are known to be new, the record has a note of them, for an undo.
    notes = bool(job.whole) and (job.directories > 1 or not store.listing_is_cheap)
    listed = (job.directories - job.whole) * looks + job.existing * (job.directories > 1 or checks)
    pages = -(-job.files // _PAGE)
    sources = job.tasks if job.sources is None else job.sources and job.sources + _FIND_SHARED
    if not store.listing_is_cheap:
        shared = _FIND_SHARED * (job.sources is not None and store.makes_directories)
        sources = (
            pages + shared if _lists_pages(job, store) else sources
        ) + pages * store.lists_versions
    listings = listed + 1 - checks + (pages if store.lists_uploads else sources)
    return {
        MOVE: job.moves,
        READ: job.tasks * (not job.has_results) + _ONCE[READ],
        LIST: listings + above + _ONCE[LIST] - job.has_results,
        WRITE: -(-job.files // MOST_ENTRIES) + _ONCE[WRITE] + notes,
        MKDIRS: (job.directories - job.existing - job.whole) * store.makes_directories,
        OTHER: _ONCE[OTHER] + checks + _FREEZE * store.makes_directories + _RIGHTS * bool(job.whole),
    }


def _lists_pages(job: Job, store: Store) -> bool:
    """Whether the files of all tasks are listed by pages, which is less than each directory."""
    directories = job.tasks if job.sources is None else job.sources
    return not store.listing_is_cheap and directories > 1 + job.files // _PAGE


def dollars(requests: Mapping[str, float], store: Store) -> float | None:
    """The list price of the requests; None if the store has none."""
    prices = store.prices
    return sum(prices.get(kind, 0.0) * n for kind, n in requests.items()) / 1000 if prices else None


def estimate(job: Job, setup: Setup) -> Estimate:
    """The time of a commit: of requests that follow one another, and of the longest other wait."""
    store, request = setup.store, setup.latency + REQUEST_SECONDS * bool(setup.latency)
    # Where all directories are listed by pages, one page follows another.
    listings = store.lists_versions + _lists_pages(job, store)
    pages = job.files // _PAGE * max(store.lists_uploads, listings)
    # Workers cannot shorten what follows one another: it is added to the longest of all other waits.
    alone = request * (_ROUNDS - job.has_results + pages + int(job.tasks * store.serial_a_task))
    alone += START_SECONDS if setup.workers else 0.0
    waits, lanes = {_FLIGHT: 0.0, _DRIVER: 0.0}, setup.in_flight * (setup.workers or 1)
    for items, computes, is_of_files in _steps(job, store):
        at_once = min(setup.in_flight, -(-items // (setup.workers or 1)))
        each = request + turn(at_once, request, computes)
        alone += each + (STAGE_SECONDS if setup.workers else 0.0)
        # Less the first item of each lane, whose time is in `alone`.
        waits[_FLIGHT] += each * (math.ceil(items / lanes) - 1)
        if setup.workers:
            calls = items / LARGEST_BATCH + _LAST_BATCHES * setup.workers
            if is_of_files:
                size = shard_size(threads=setup.in_flight, seconds_a_file=each)
                calls = items / size + _LAST_SHARDS * setup.workers
            waits[_DRIVER] += CALL_SECONDS * min(items, calls)
    if store.limit is not None:
        requests = count_requests(store, job)
        waits[store.limit.name] = store.limit.seconds(requests)
    # The waits overlap: the commit is as slow as the worst of them.
    longest = max(waits, key=waits.__getitem__)
    return Estimate(alone + waits[longest], longest if waits[longest] > alone else _ALONE)


def enough_workers(job: Job, setup: Setup) -> tuple[int, Estimate]:
    """The least number of workers, up to 1,024, with which the commit is as good as fastest; the time
    with them, and what it waits for with the best number."""
    estimates = [estimate(job, replace(setup, workers=n)) for n in range(1, MOST_WORKERS + 1)]
    best = min(estimates, key=lambda candidate: candidate.seconds)
    number = next(
        n for n, candidate in enumerate(estimates, 1) if candidate.seconds <= NEAR * best.seconds
    )
    return number, replace(best, seconds=estimates[number - 1].seconds)


def _steps(job: Job, store: Store) -> Iterator[tuple[int, float, bool]]:
    """What workers share: numbers of items of which each takes a request, and its processor time; and
    whether they are given as shards of files."""
    rename = LOCAL_RENAME_SECONDS if store.is_local else RENAME_SECONDS + store.client
    files, directories = job.files - job.whole_files, job.directories - job.whole
    if job.whole:
        yield job.whole, rename, False
    if files:
        yield files, rename + FILE_SECONDS, True
    if not job.has_results:
        yield job.tasks, MANIFEST_SECONDS + FILE_SECONDS * job.files / job.tasks, False
    if store.lists_versions:
        yield job.tasks, 0.0, False
    if store.makes_directories and directories > job.existing:
        yield directories - job.existing, 0.0, False
    sources = job.tasks if job.sources is None else job.sources
    if sources and store.makes_directories and not _lists_pages(job, store):
        yield sources, LISTING_SECONDS + FILE_SECONDS * job.files / sources, False
    if store.listing_is_cheap and files:
        yield -(-files // MOST_ENTRIES), PACK_SECONDS * min(files, MOST_ENTRIES), False
        yield directories, LISTING_SECONDS + FILE_SECONDS * files / directories, False


def turn(threads: int, waits: float, computes: float) -> float:
    """How long a thread computes, with its wait for a processor that some threads share.

    Each waits for so many seconds, then computes for so many, again and again: mean value analysis of a
    closed network with one queue.
    """
    queue = answer = 0.0
    for number in range(1, threads + 1):
        answer = computes * (1 + queue)
        # With one thread more: it meets the queue that the threads before it make.
        queue = number * answer / (waits + answer) if answer else 0.0
    return answer


_HDFS = Store(name="HDFS", latency=0.002, client=56e-6, listing_is_cheap=True, serial_a_task=0.002)
_CLASS_A = dict.fromkeys((MOVE, LIST, WRITE, OTHER), 0.005) | {READ: 0.0004}
STORES = {
    "file": replace(_HDFS, name="local files", latency=0.0, client=0.0),
    "hdfs": _HDFS,
    "abfs": Store(
        name="Azure Data Lake Storage",
        client=216e-6,
        serial_a_task=0.0004,
        # learn.microsoft.com/azure/storage/common/scalability-targets-standard-account
        limit=Limit(20_000, 20_000, "the 20,000 requests per second of the account", are_one=True),
        prices=dict.fromkeys((MOVE, MKDIRS, OTHER, LIST), 0.00715) | {WRITE: 0.0143, READ: 0.00057},
        prices_from="2025, Microsoft's sample prices of the Data Lake Storage endpoint, hot tier",
    ),
    "gs": Store(
        name="Google Cloud Storage",
        client=135e-6,
        makes_directories=False,
        lists_versions=True,
        serial_a_task=0.0125,
        # cloud.google.com/storage/docs/request-rate
        limit=Limit(5_000, 1_000, "the writes per second of the bucket, at first 1,000", doubles=1200.0),
        prices=_CLASS_A,
        prices_from="2025, Standard storage in one region; a move is assumed to be of Class A",
    ),
    "s3": Store(
        name="Amazon S3",
        client=247e-6,
        makes_directories=False,
        lists_uploads=True,
        serial_a_task=0.008,
        # docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
        limit=Limit(5_500, 3_500, "the 3,500 writes per second of the prefix"),
        prices=_CLASS_A,
        prices_from="2025, S3 Standard in us-east-1",
    ),
}
"""The stores, by the scheme of their URLs."""
