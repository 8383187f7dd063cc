"""The steps of a commit, in the order of `stages/commit_job.py`, with the requests that each makes.

A step is requests of the driver that follow one another, and then items that lanes share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ray_committer.jobs.estimate import LIST, MKDIRS, MOVE, OTHER, READ, WRITE
from ray_committer.protocol.pack import MOST_ENTRIES
from ray_committer.protocol.plan import shard_size

from . import costs
from .inputs import Job, Setup
from .stores import DIRECTORIES, FINISH, LOAD, MOVES, OPEN, PREPARE, VALIDATE, Store

START = "start workers"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a stage.

    rounds: requests of the driver, one after another; it also computes for `driver` seconds.
    items: what the lanes share. Each makes the requests `each`, one after another, and takes `processor`
        seconds. Items that `are_files` are cut into shards, others into batches.
    beside: requests that take no time of their own.
    """

    stage: str
    rounds: float = 0.0
    items: int = 0
    each: Mapping[str, float] = field(default_factory=dict)
    processor: float = 0.0
    driver: float = 0.0
    are_files: bool = False
    beside: Mapping[str, float] = field(default_factory=dict)


def steps(job: Job, setup: Setup, *, moved: float = 0.0) -> list[Step]:
    """The steps of a commit; of one that is run again, a share of the files is `moved` already."""
    store, rounds = setup.store, setup.store.rounds
    pages = _more_pages(job.manifests * store.listed_a_task, store)
    listed = store.once[LIST] + store.listings * pages
    found = [
        Step(
            OPEN,
            rounds=0 if setup.is_driver else rounds[OPEN] + pages,
            beside={**store.once, LIST: listed},
        ),
        _load(job, setup),
        # The files of tasks are frozen after the manifests.
        Step(
            PREPARE,
            rounds=rounds[PREPARE] - setup.is_driver + job.go_whole + pages,
            driver=20e-6 * job.manifests,
        ),
        *_checks(job, setup),
        Step(
            DIRECTORIES,
            rounds=rounds[DIRECTORIES] + bool(setup.workers),  # each looks whether it sees the record
            beside={LIST: setup.workers or 0},
            items=job.partitions if store.makes_directories and not job.go_whole else 0,
            each={MKDIRS: 1},
        ),
        _move_whole(job, setup) if job.go_whole else _move(job, setup, moved),
    ]
    validates = store.listing_is_cheap if setup.validates is None else setup.validates
    if validates and not job.go_whole:  # what the look before has found is what is moved
        found += _validation(job)
    finish = _finish(job, store)
    return [*found, replace(finish, rounds=finish.rounds - 2) if setup.is_driver else finish]


def _load(job: Job, setup: Setup) -> Step:
    store = setup.store
    pages = 1 + _more_pages(job.files, store) if store.lists_versions else 0.0
    return Step(
        LOAD,
        rounds=store.rounds[LOAD] + pages,
        items=0 if setup.is_driver else job.manifests,
        each={READ: 1},
        processor=costs.LOADED_MANIFEST.value + costs.LOADED_FILE.value * job.files_a_manifest,
        beside={WRITE: _packs(job), LIST: pages},
    )


def _packs(job: Job) -> int:
    return -(-job.files // MOST_ENTRIES)


def _checks(job: Job, setup: Setup) -> list[Step]:
    """Listings of the tasks' directories, or of all their files by pages, and one page of the
    destination, which shows that its directories are new."""
    store, found = setup.store, list[Step]()
    if job.go_whole or setup.is_driver:  # beside the page of the destination
        files = costs.LISTED.value + costs.LOADED_FILE.value * job.files / job.partitions
        return [Step(PREPARE, items=job.partitions, each={LIST: 1}, processor=files)]
    listings = job.manifests * _listings_a_task(job, store)
    if not (store.listing_is_cheap or store.lists_uploads):
        pages = 1 + _more_pages(job.files, store)
        if job.manifests > pages:
            found.append(Step(PREPARE, rounds=pages, beside={LIST: pages}))
        else:
            found.append(Step(PREPARE, items=job.manifests, each={LIST: 1}))
    if listings:
        files = costs.LOADED_FILE.value * job.files / listings
        found.append(Step(PREPARE, items=listings, each={LIST: 1}, processor=costs.LISTED.value + files))
    found.append(Step(PREPARE, items=1, each={LIST: 1}, processor=costs.LISTED.value))
    if store.lists_uploads:
        pages = _more_pages(job.files, store) + 1
        found.append(Step(PREPARE, rounds=pages, beside={LIST: pages}))
    return found


def _validation(job: Job) -> list[Step]:
    """Pack what must be there, in groups of files, and compare it with a listing of each directory."""
    packs = _packs(job)
    pack = costs.PACKED_FILE.value * job.files / packs
    compare = costs.LISTED.value + costs.LOADED_FILE.value * job.files / job.partitions
    return [
        Step(VALIDATE, items=packs, processor=pack),
        Step(VALIDATE, items=job.partitions, each={LIST: 1}, processor=compare),
    ]


def _move(job: Job, setup: Setup, moved: float) -> Step:
    store = setup.store
    each = {MOVE: 1.0}
    if moved:  # a rename fails, and both ends are looked at
        each[READ] = 2 * moved
    processor = costs.LOCAL_RENAME if store.is_local else costs.RENAME
    return Step(
        MOVES,
        rounds=store.rounds[MOVES] + 1.0 * bool(_read_again(job, setup)),
        items=job.files,
        each=each,
        processor=processor.value + costs.LOADED_FILE.value + store.client,
        are_files=True,
        beside={READ: _read_again(job, setup)},
    )


def _move_whole(job: Job, setup: Setup) -> Step:
    """One rename for each partition; the files of tasks were frozen and listed, and rights compared."""
    cost = costs.LOCAL_RENAME if setup.store.is_local else costs.RENAME
    return Step(
        MOVES,
        # The note of new directories is written with the record's state, and waited for.
        rounds=setup.store.rounds[MOVES] + setup.store.weights.get(WRITE, 1) - 1,
        items=job.partitions,
        each={MOVE: 1},
        processor=cost.value + setup.store.client,
        beside={LIST: 3, OTHER: 2},
    )


def _finish(job: Job, store: Store) -> Step:
    names, rounds, deletions = job.manifests * store.names_a_task, store.rounds[FINISH], 0
    if store.deletes_at_once:
        deletions = -(-names // store.deletes_at_once)
        rounds += _more_pages(names, store) + -(-deletions // store.deletions_at_once) - 1
    return Step(FINISH, rounds=rounds, beside={OTHER: deletions})


def _listings_a_task(job: Job, store: Store) -> int:
    """Listings of a task's directories, which show whether its files are there."""
    leaves = min(job.task_directories, -(-job.files // job.manifests))
    return leaves if store.listing_is_cheap else 0


def _read_again(job: Job, setup: Setup) -> float:
    """Reads of packs: by each worker that moves files of it, or of all but the last one, which this
    process has in memory."""
    if not setup.workers:
        return float(_packs(job) - 1)
    shards = MOST_ENTRIES / shard_size(threads=setup.threads, seconds_a_file=setup.latency)
    return _packs(job) * min(shards, setup.workers)


def _more_pages(names: float, store: Store) -> float:
    """The further answers to a listing of so many names."""
    return 0.0 if store.page is None else float(max(0, -(-names // store.page) - 1))


def requests_of(found: list[Step]) -> dict[str, float]:
    """Add up the requests of all steps, by kind."""
    total: dict[str, float] = {}
    for step in found:
        each = {kind: number * step.items for kind, number in step.each.items()}
        for some in (each, step.beside):
            for kind, number in some.items():
                total[kind] = total.get(kind, 0.0) + number
    return {kind: number for kind, number in total.items() if number}
