"""Manifests are loaded from the results of tasks while others run; the commit loads the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ray_committer.options import CommittedTask
from ray_committer.protocol.manifest import digest
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, write_job
from ray_committer.work.load_ahead import CHUNK_ENTRIES, LoadAhead
from tests.stages.support import JOB, context, requests, stamp_of_job


def committed(store: StoreOperations, *, with_text: bool = True) -> list[CommittedTask]:
    """What the tasks of the job have handed out, by task."""
    tasks = []
    for status in sorted(store.list_status(JOB.manifests), key=lambda one: one.name):
        text, attempt = store.read(status.path), status.name.removesuffix("-manifest.json") + "_0"
        task = CommittedTask(status.name, digest(text), attempt.replace("task", "attempt"), len(text), 1)
        tasks.append(replace(task, text=text if with_text else None))
    return tasks


def a_job(tasks: int = 3) -> MemoryStore:
    """A job whose task `n` has written one file of `n` bytes, in a partition of its own."""
    store = MemoryStore()
    write_job(store, JOB, {n: {f"p={n}/part-{n}": b"x" * n} for n in range(tasks)})
    return store


def ahead_of(store: StoreOperations, stamp: str | None = None) -> LoadAhead:
    return LoadAhead(lambda: context(store), stamp_of_job(store) if stamp is None else stamp)


def left(ahead: LoadAhead, tasks: Sequence[CommittedTask]) -> list[int]:
    """The numbers of the tasks that the commit must load."""
    unknown = ahead.of(tasks)[1]
    return [number for number, task in enumerate(tasks) if task in unknown]


@pytest.mark.parametrize("with_text", [True, False])
def test_what_tasks_have_committed_is_loaded_and_none_is_left(with_text: bool):
    store = a_job()
    tasks, ahead = committed(store, with_text=with_text), ahead_of(store)
    ahead.add(tasks[:1])
    ahead.add(tasks[1:])
    (chunk,), unknown = ahead.of(tasks)
    assert not unknown
    assert {(ref.name, ref.digest, ref.files) for ref in chunk.refs} == {
        (task.manifest, task.digest, 1) for task in tasks
    }
    assert sorted(chunk.directories) == [f"{JOB.destination}/p={number}" for number in range(3)]
    assert {entry.dest for entry in chunk.entries} == {
        f"{JOB.destination}/p={number}/part-{number}" for number in range(3)
    }
    assert len(chunk.marks) == 3 * 8


def test_a_manifest_that_came_with_its_task_is_not_read():
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store)
    assert not requests(store, lambda one: ahead_of(one, stamp_of_job(store)).add(tasks))
    ahead.add(tasks)
    assert not left(ahead, tasks)


def test_a_task_that_is_told_twice_counts_once():
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store)
    ahead.add(tasks + tasks)
    ahead.add(tasks)
    (chunk,), _ = ahead.of(tasks)
    assert len(chunk.refs) == len(chunk.entries) == 3


def test_chunks_hold_up_to_ten_thousand_entries_or_one_manifest():
    half = CHUNK_ENTRIES // 2
    sizes = [half, half, 1, CHUNK_ENTRIES + 1, 2]
    store = MemoryStore()
    write_job(store, JOB, {n: {f"{n}-{i}": b"" for i in range(size)} for n, size in enumerate(sizes)})
    tasks, ahead = committed(store, with_text=False), ahead_of(store)
    ahead.add(tasks)
    chunks, _ = ahead.of(tasks)
    assert [len(chunk.entries) for chunk in chunks] == [2 * half, 1, CHUNK_ENTRIES + 1, 2]


def test_a_chunk_with_an_attempt_that_does_not_count_is_left_out_as_a_whole():
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store)
    ahead.add(tasks)
    assert ahead.of(tasks[:2]) == ([], tasks[:2])
    other = replace(tasks[2], digest="0" * 64)
    assert left(ahead, [*tasks[:2], other]) == [0, 1, 2]


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
        lambda task: replace(task, manifest="../state/x", text=None),
        lambda task: replace(task, manifest="", text=None),
        lambda task: replace(task, manifest="\0", text=None),
        lambda task: replace(task, manifest="gone-manifest.json", text=None),
    ],
)
def test_what_is_not_what_a_task_has_saved_is_left_to_the_commit(wrong):
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store)
    tasks[1] = wrong(tasks[1])
    ahead.add(tasks)
    assert left(ahead, tasks) == [1]


def test_a_manifest_of_another_job_is_left_to_the_commit():
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store, "another stamp")
    ahead.add(tasks)
    assert left(ahead, tasks) == [0, 1, 2]


def test_a_manifest_that_the_store_does_not_give_is_left_to_the_commit():
    store = a_job()
    tasks = committed(store, with_text=False)

    def fail(call: StoreCall) -> None:
        if call.operation == "read" and call.paths[0].endswith(tasks[1].manifest):
            raise PermissionError(13, "denied", call.paths[0])

    ahead = ahead_of(WrappedStore(store, before=fail), stamp_of_job(store))
    ahead.add(tasks)
    assert left(ahead, tasks) == [1]


def test_a_store_that_cannot_be_opened_leaves_all_to_the_commit():
    def fail() -> None:
        raise PermissionError(13, "denied", JOB.destination)

    tasks, ahead = committed(a_job()), LoadAhead(fail, "")  # type: ignore[arg-type]
    ahead.add(tasks)
    assert left(ahead, tasks) == [0, 1, 2]


def test_nothing_more_is_loaded_once_the_commit_has_begun():
    store = a_job()
    tasks, ahead = committed(store), ahead_of(store)
    ahead.add(tasks[:1])
    ahead.of(tasks)
    ahead.add(tasks[1:])
    assert left(ahead, tasks) == [1, 2]
