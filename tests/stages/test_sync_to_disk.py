"""A durable commit forces to disk what counts, in an order that a power cut cannot take apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.errors import CommitCancelledError
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import ReplacedFile
from ray_committer.stages.context import JobContext
from ray_committer.stages.sync_to_disk import sync_destinations, sync_packs, sync_replaced
from ray_committer.testing import MemoryStore, WrappedStore
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, WHEN, SyncedStore, at, context, pack_of, record_of, requests

DURABLE = CommitOptions(durable=True)
ABOVE = ["/table", "/table/_temporary", "/table/_temporary/job_1", JOB.directory]


def written(packs: int = 3, partitions: int = 3) -> SyncedStore:
    store = SyncedStore()
    store.mkdirs(JOB.packs)
    for number in range(packs):
        store.write(f"{JOB.packs}/{number}", b"x")
    for number in range(partitions):
        put_file(store, f"/table/p={number}/q=1/old", b"x")
    return store


def force_packs(found: JobContext, packs: int = 3) -> None:
    sync_packs(found, [pack_of(1, 1, str(number)) for number in range(packs)])


def force_destinations(found: JobContext, partitions: int = 3) -> None:
    directories = [f"/table/p={number}/q=1" for number in range(partitions)]
    found.executor.directories.collect(0, directories, b"")
    sync_destinations(found)


def record_with_old(partitions: int):

    paths = [f"/table/p={number}/q=1/{name}" for number in range(partitions) for name in "ab"]
    return record_of(replaced=[ReplacedFile(path, 1) for path in paths])


def force_replaced(found: JobContext, partitions: int = 3) -> None:
    sync_replaced(found, record_with_old(partitions))


STEPS: list[Callable[..., None]] = [force_packs, force_destinations, force_replaced]
steps = pytest.mark.parametrize("step", STEPS)


@steps
def test_a_commit_that_need_not_be_durable_forces_nothing(step: Callable[..., None]):
    assert requests(written(), lambda one: step(context(one))) == Counter()


@steps
def test_a_store_whose_answer_means_that_it_is_safe_is_forced_to_nothing(step: Callable[..., None]):
    assert requests(MemoryStore(), lambda one: step(context(one, DURABLE))) == Counter()


@pytest.mark.parametrize("packs", [0, 1, 50])
def test_each_pack_is_forced_before_the_names_that_lead_to_it(packs: int):
    store = written(packs)
    force_packs(context(store, DURABLE), packs)
    assert store.synced[:packs] == [f"{JOB.packs}/{number}" for number in range(packs)]
    assert store.synced[packs] == JOB.packs
    assert sorted(store.synced[packs + 1 :]) == ABOVE


@pytest.mark.parametrize("partitions", [0, 1, 20])
def test_every_destination_is_forced_once_and_so_is_every_directory_above_it(partitions: int):
    store = written(partitions=partitions)
    force_destinations(context(store, DURABLE), partitions)
    leaves = [f"/table/p={number}/q=1" for number in range(partitions)]
    inner = [f"/table/p={number}" for number in range(partitions)]
    below = [path for path in store.synced if path != "/table"]
    assert sorted(below) == sorted([*leaves, *inner])
    assert store.synced[0] == "/table"


@pytest.mark.parametrize("partitions", [0, 1, 20])
def test_each_directory_of_an_old_file_is_forced_once(partitions: int):
    store = written(partitions=partitions)
    force_replaced(context(store, DURABLE), partitions)
    assert store.synced == [f"/table/p={number}/q=1" for number in range(partitions)]


def test_a_directory_of_old_files_that_is_gone_needs_no_force():
    store = written()
    store.delete_directory("/table/p=1")
    force_replaced(context(store, DURABLE))
    assert store.synced == ["/table/p=0/q=1", "/table/p=2/q=1"]


def test_a_destination_that_is_gone_is_an_error():
    store = written()
    store.delete_directory("/table/p=1")
    with pytest.raises(FileNotFoundError):
        force_destinations(context(store, DURABLE))


@pytest.mark.parametrize("end", ["/table", "/table/p=1"])
def test_only_a_directory_above_can_be_closed_to_this_job(end: str):
    store = written()
    denied = WrappedStore(store, before=at("sync", PermissionError("denied"), end))
    if end == "/table":
        with pytest.raises(PermissionError):
            force_destinations(context(denied, DURABLE))
    else:
        force_destinations(context(denied, DURABLE))
        assert "/table/p=1/q=1" in store.synced


@steps
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_what_cannot_be_forced_is_an_error_since_a_power_cut_could_take_it(step, when: str, error):
    faulty = WrappedStore(written(), **{when: at("sync", error("simulated"))})
    with pytest.raises(error):
        step(context(faulty, DURABLE))


@steps
def test_a_cancelled_commit_forces_nothing(step: Callable[..., None]):
    store = written()
    with pytest.raises(CommitCancelledError):
        step(context(store, DURABLE, cancelled=True))
    assert store.synced == []
