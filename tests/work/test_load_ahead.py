"""Manifests are loaded from the results of tasks while others run; the commit loads the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from ray_committer.options import CommittedTask
from ray_committer.protocol.pack import MOST_ENTRIES
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, write_job
from ray_committer.work.load_ahead import Chunk, LoadAhead
from ray_committer.work.packs import PackReader
from tests.results import results_of
from tests.stages.support import JOB, context, requests, stamp_of_job
from tests.threads import at_once

ROOTS = (JOB.destination,)


def a_job(tasks: int = 3, store: MemoryStore | None = None) -> MemoryStore:
    """A job whose task `n` has written one file of `n` bytes, in a partition of its own."""
    store = store or MemoryStore()
    write_job(store, JOB, {n: {f"p={n}/part-{n}": b"x" * n} for n in range(tasks)})
    return store


def ahead_of(store: StoreOperations, stamp: str | None = None) -> LoadAhead:
    return LoadAhead(lambda: context(store), stamp_of_job(store) if stamp is None else stamp)


def of(
    ahead: LoadAhead, store: StoreOperations, tasks: Sequence[CommittedTask]
) -> tuple[list[Chunk], list[int]]:
    """What is loaded, and the numbers of the tasks that are not; nothing comes with the commit."""
    unsent = [replace(task, text=None) for task in tasks]
    chunks, unknown = ahead.of(context(store), unsent, ROOTS)
    return chunks, [number for number, task in enumerate(unsent) if task in unknown]


def left(ahead: LoadAhead, store: StoreOperations, tasks: Sequence[CommittedTask]) -> list[int]:
    return of(ahead, store, tasks)[1]


def places_in(store: StoreOperations, chunks: Sequence[Chunk]) -> list[str]:
    reader = PackReader(store, JOB)
    packs = [pack for chunk in chunks for pack in (*chunk.packs, chunk.rest.pack())]
    return sorted(entry.dest for pack in packs for entry in reader.entries(pack))


@pytest.mark.parametrize("with_text", [True, False])
def test_what_tasks_have_committed_is_loaded_and_none_is_left(with_text: bool):
    store = a_job()
    tasks, ahead = results_of(store, JOB, with_text=with_text), ahead_of(store)
    ahead.add(tasks[:1])
    ahead.add(tasks[1:])
    chunks, unknown = of(ahead, store, tasks)
    assert not unknown
    (chunk,) = chunks
    assert {(ref.name, ref.digest, ref.files) for ref in chunk.refs} == {
        (task.manifest, task.digest, 1) for task in tasks
    }
    assert sorted(chunk.directories) == [f"{JOB.destination}/p={number}" for number in range(3)]
    assert places_in(store, chunks) == [f"{JOB.destination}/p={n}/part-{n}" for n in range(3)]
    assert len(chunk.marks) == 3 * 8


def test_a_manifest_that_came_with_its_task_is_not_read():
    store = a_job()
    tasks, stamp = results_of(store, JOB), stamp_of_job(store)
    assert not requests(store, lambda one: ahead_of(one, stamp).add(tasks))
    assert not requests(
        store, lambda one: LoadAhead(lambda: context(one), stamp).of(context(one), tasks, ROOTS)
    )


def test_a_task_that_is_told_twice_counts_once():
    store = a_job()
    tasks, ahead = results_of(store, JOB), ahead_of(store)
    ahead.add(tasks + tasks)
    ahead.add(tasks)
    ((chunk,), _) = of(ahead, store, tasks)
    assert len(chunk.refs) == chunk.files == 3


def many(sizes: Sequence[int], store: MemoryStore | None = None) -> MemoryStore:
    """A job whose tasks have written so many files each."""
    store = store or MemoryStore()
    write_job(store, JOB, {n: {f"{n}-{i}": b"" for i in range(size)} for n, size in enumerate(sizes)})
    return store


def test_each_full_pack_is_saved_while_tasks_run_and_the_last_one_is_not():
    half = MOST_ENTRIES // 2
    sizes = [half, half, 1, MOST_ENTRIES + 1, 2]
    store = many(sizes)
    tasks, ahead = results_of(store, JOB, with_text=False), ahead_of(store)
    ahead.add(tasks)
    saved = {status.name for status in store.list_status(JOB.packs)}
    chunks, unknown = of(ahead, store, tasks)
    assert not unknown
    assert [[pack.files for pack in chunk.packs] for chunk in chunks[:-1]] == [
        [2 * half],
        [1],
        [MOST_ENTRIES, 1],
    ]
    assert {pack.ref.name for chunk in chunks[:-1] for pack in chunk.packs} == saved
    assert (chunks[-1].packs, chunks[-1].rest.files) == ((), 2)
    assert len(places_in(store, chunks)) == sum(sizes)


def test_a_pack_that_cannot_be_saved_stays_in_memory_and_the_next_tasks_are_loaded():
    store = many([MOST_ENTRIES, 1, 1])
    tasks = results_of(store, JOB, with_text=False)

    def fail(call: StoreCall) -> None:
        if call.paths[0].startswith(JOB.packs):
            raise PermissionError(13, "denied", call.paths[0])

    ahead = ahead_of(WrappedStore(store, before=fail), stamp_of_job(store))
    ahead.add(tasks)
    chunks, unknown = of(ahead, store, tasks)
    assert not unknown
    assert [chunk.packs for chunk in chunks] == [(), ()]
    assert len(places_in(store, chunks)) == MOST_ENTRIES + 2


def test_a_chunk_with_an_attempt_that_does_not_count_is_left_out_as_a_whole():
    store = many([MOST_ENTRIES, 1, 1])
    tasks, ahead = results_of(store, JOB, with_text=False), ahead_of(store)
    ahead.add(tasks)
    other = replace(tasks[2], digest="0" * 64)
    assert left(ahead, store, [*tasks[:2], other]) == [1, 2]
    assert left(ahead, store, tasks[1:]) == [0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda task: replace(task, text=b"{}"),
        lambda task: replace(task, text=b""),
        lambda task: replace(task, text=b"\xff\xfe" * 1000),
        lambda task: replace(task, text=b"[" * 100_000),
        lambda task: replace(task, text=task.text.replace(b"part-1", b"part-7")),
        lambda task: replace(task, digest="0" * 64),
        lambda task: replace(task, task_attempt_id="attempt_1_m_000001_7"),
        lambda task: replace(task, manifest="../state/x"),
        lambda task: replace(task, manifest="../state/x", text=None),
        lambda task: replace(task, manifest="", text=None),
        lambda task: replace(task, manifest="\0", text=None),
        lambda task: replace(task, manifest="gone-manifest.json", text=None),
    ],
)
def test_what_is_not_what_a_task_has_saved_is_left_to_the_commit(wrong):
    store = a_job()
    tasks, ahead = results_of(store, JOB), ahead_of(store)
    tasks[1] = wrong(tasks[1])
    ahead.add(tasks)
    assert left(ahead, store, tasks) == [1]


def test_a_manifest_of_another_job_is_left_to_the_commit():
    store = a_job()
    tasks, ahead = results_of(store, JOB), ahead_of(store, "another stamp")
    ahead.add(tasks)
    assert left(ahead, store, tasks) == [0, 1, 2]


def test_a_manifest_that_the_store_does_not_give_is_left_to_the_commit():
    store = a_job()
    tasks = results_of(store, JOB, with_text=False)

    def fail(call: StoreCall) -> None:
        if call.operation == "read" and call.paths[0].endswith(tasks[1].manifest):
            raise PermissionError(13, "denied", call.paths[0])

    ahead = ahead_of(WrappedStore(store, before=fail), stamp_of_job(store))
    ahead.add(tasks)
    assert left(ahead, store, tasks) == [1]


def test_a_store_that_cannot_be_opened_leaves_all_to_the_commit():
    def fail() -> None:
        raise PermissionError(13, "denied", JOB.destination)

    store = a_job()
    tasks, ahead = results_of(store, JOB), LoadAhead(fail, "")  # type: ignore[arg-type]
    ahead.add(tasks)
    assert left(ahead, store, tasks) == [0, 1, 2]


def test_nothing_more_is_loaded_once_the_commit_has_begun():
    store = a_job()
    tasks, ahead = results_of(store, JOB), ahead_of(store)
    ahead.add(tasks[:1])
    left(ahead, store, tasks)
    ahead.add(tasks[1:])
    assert left(ahead, store, tasks) == [1, 2]


def test_results_that_come_at_the_same_time_are_loaded_once_each():
    store = a_job(tasks=40)
    tasks, ahead = results_of(store, JOB), ahead_of(store)
    unsent = [replace(task, text=None) for task in tasks]
    at_once(partial(ahead.add, some[start::3]) for start in range(3) for some in (tasks, unsent))
    (chunk,), unknown = of(ahead, store, tasks)
    assert not unknown
    assert len(chunk.refs) == chunk.files == 40
