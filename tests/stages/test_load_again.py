"""What has changed since the load is read again, only that, and nothing of what went is left."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from ray_committer.errors import CoordinatorLostError, PreflightError
from ray_committer.events import Event, Notice
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.success import read_success
from ray_committer.options import CommitOptions
from ray_committer.protocol.iostatistics import IOStatistics, Mean, aggregate, duration
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.pack import MOST_ENTRIES, SECTION_ENTRIES
from ray_committer.protocol.passed_over import NOTHING, PassedOver, extra_data_of
from ray_committer.protocol.paths import JobAttempt, is_inside
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_again import load_again
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from ray_committer.work.worker import Worker
from tests.results import results_of
from tests.servers.fake_s3 import FakeS3Store
from tests.stages.support import (
    JOB,
    KINDS,
    OfWorkers,
    context,
    do_at,
    each_of,
    loaded,
    manifest_path,
    stamp_of_job,
    with_job,
)

pytestmark = pytest.mark.usefixtures("no_pauses")
store = each_of()


def at_the_freeze(store: StoreOperations) -> str:
    """The first request after the load and before the listing that decides which manifests count."""
    return "move_directory" if store.has(StoreOperations.move_directory) else "advance"


def save(
    store: StoreOperations, task: int, attempt: int, files: dict[str, bytes], job: JobAttempt = JOB
) -> None:
    """Let an attempt of a task commit."""
    name = set_up_attempt(store, job, task, attempt)
    write_attempt(store, job, name, files)
    commit_attempt(store, job, task, name)


def edit(store: StoreOperations, task: int, *, hidden: PassedOver = NOTHING, **fields: Any) -> None:
    """Change what a manifest says."""
    path = manifest_path(task)
    manifest = decode_manifest(store.read(path), path)
    fields |= {"extra_data": {**(manifest.extra_data or {}), **extra_data_of(hidden)}}
    store.write(path, encode_manifest(structs.replace(manifest, **fields)))


def reads(calls: list[StoreCall], job: JobAttempt = JOB) -> int:
    """How often a manifest is read."""
    places = (job.manifests, job.frozen)
    return sum(
        call.operation == "read" and any(is_inside(call.paths[0], place) for place in places)
        for call in calls
    )


def commit(
    store: StoreOperations,
    change: Callable[[], object],
    when: str,
    *,
    end: str = "",
    options: CommitOptions | None = None,
    **how: Any,
) -> int:
    """Commit the job, while `change` happens; how many manifests are read."""
    calls: list[StoreCall] = []
    hooked = WrappedStore(WrappedStore(store, before=do_at(when, change, end)), before=calls.append)
    run_commit(hooked, JOB, options, **how)
    return reads(calls)


# What a changed listing costs


@pytest.mark.parametrize(("task", "attempt"), [(3, 1), (20, 0)])
def test_a_task_that_commits_before_the_freeze_costs_one_read(
    store: MemoryStore, task: int, attempt: int
):
    write_job(store, JOB, {task: {f"f{task}": b"x"} for task in range(20)})
    late = lambda: save(store, task, attempt, {"late": b"x"})  # noqa: E731
    assert commit(store, late, at_the_freeze(store)) == 21
    names = visible_files(store, JOB.destination).keys()
    assert names == {"late"} | {f"f{one}" for one in range(20) if one != task}


def test_each_change_costs_only_what_has_changed():
    """Tasks go on committing: the same manifest, others, and a new one."""
    store = with_job({task: {f"f{task}": b"x"} for task in range(50)})
    left = [(1, 1, "a"), (1, 2, "b"), (50, 0, "c"), (2, 1, "d")]

    def change(call: StoreCall) -> None:
        # Before each load but the first, and after its listing: at the first read of a manifest.
        if call.operation == "read" and is_inside(call.paths[0], JOB.manifests) and left:
            task, attempt, name = left.pop(0)
            save(store, task, attempt, {name: b"y"})

    calls: list[StoreCall] = []
    run_commit(WrappedStore(WrappedStore(store, before=calls.append), before=change), JOB)
    assert visible_files(store, JOB.destination).keys() >= {"b", "c", "d"}
    assert len(visible_files(store, JOB.destination)) == 51
    assert reads(calls) <= 50 + 2 * 4


def test_manifests_that_a_driver_names_keep_their_rules():
    """What a driver names is compared with its message, whatever was loaded; nothing is read again."""
    store = with_job({task: {f"f{task}": b"x"} for task in range(5)})
    tasks = tuple(results_of(store, JOB))
    path = manifest_path(3)
    same = store.read(path)
    options = CommitOptions(expected_tasks=5, committed_tasks=tasks)
    assert commit(store, lambda: store.write(path, same), "move_directory", options=options) == 0
    assert len(visible_files(store, JOB.destination)) == 5


# What comes out is what a load of everything finds


def what(found: JobContext, one: LoadedManifests) -> dict[str, Any]:
    """All that a commit takes from a load."""
    packs = Worker(found.store, JOB, found.executor.permits, in_driver=True).packs
    directories = found.executor.directories
    entries = [entry for pack in one.packs for entry in packs.entries(pack)]
    return {
        "entries": sorted(map(repr, entries)),
        "files": one.files,
        "tasks": one.tasks,
        "manifests": sorted(map(repr, one.manifests)),
        "fills_destination": one.fills_destination,
        "directories": sorted(directories.share(0, 1)),
        "repeated": directories.repeated(),
        "leaves": directories.plan(),
        "listing": one.listing,
        "statistics": one.statistics,
        "passed_over": one.passed_over,
    }


def changed(store: StoreOperations, before: LoadedManifests) -> tuple[int, LoadedManifests]:
    """What is loaded again equals what is loaded anew; how many manifests are read."""
    calls: list[StoreCall] = []
    again = context(WrappedStore(store, before=calls.append))
    stamp = stamp_of_job(store)
    found = load_again(again, before, (JOB.destination,), stamp=stamp)
    anew = context(store)
    assert what(again, found) == what(anew, loaded(anew))
    return reads(calls), found


def some_files(chance: random.Random, task: int, attempt: int) -> dict[str, bytes]:
    places = ["", "p=1/", "p=2/", "p=2/q=1/", "p=3/q=1/"]
    return {
        f"{chance.choice(places)}{chance.choice(['same', f'f{task}-{attempt}-{n}'])}": b"x" * n
        for n in range(chance.randrange(1, 4))
    }


def some_reports(chance: random.Random) -> dict[str, Any]:
    """What a manifest says of its task: some names that only some have, and what was passed over."""
    counters = {chance.choice(["files", "bytes", "other"]): chance.randrange(1000)}
    times = duration("task", chance.randrange(1, 1000), failed=chance.random() < 0.3)
    hidden = PassedOver.of([f"_{n}" for n in range(chance.randrange(3))])
    statistics = aggregate(IOStatistics(counters=counters, gauges={"open": chance.randrange(9)}), times)
    return {"iostatistics": statistics if chance.random() < 0.8 else None, "hidden": hidden}


@pytest.mark.parametrize("kind", [*KINDS, "uploads"])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_loaded_again_is_what_is_loaded_anew(kind: str, seed: int):
    store = FakeS3Store() if kind == "uploads" else KINDS[kind]()
    chance = random.Random(seed)
    write_job(store, JOB, {task: some_files(chance, task, 0) for task in range(8)})
    for task in range(8):
        edit(store, task, **some_reports(chance))
    before = loaded(context(store))
    for attempt in range(1, 4):
        for task in chance.sample(range(10), chance.randrange(4)):
            save(store, task, attempt, some_files(chance, task, attempt))
            edit(store, task, **some_reports(chance))
        if chance.random() < 0.3:
            store.delete_file(chance.choice([one.path for one in store.list_status(JOB.manifests)]))
        read, before = changed(store, before)
        assert read <= before.tasks


def test_sums_are_those_of_the_manifests_that_count(store: MemoryStore):
    """Of files, of the time of tasks, and of what was passed over; in the record and in ``_SUCCESS``."""
    write_job(store, JOB, {task: {f"f{task}": b"x"} for task in range(3)})

    def says(task: int, milliseconds: int) -> None:
        hidden = PassedOver.of([f"_{task}-{milliseconds}"])
        edit(store, task, iostatistics=duration("task", milliseconds), hidden=hidden)

    for task in range(3):
        says(task, 1000 + task)

    def change() -> None:
        save(store, 1, 1, {"f1": b"xx"})
        says(1, 10)

    events: list[Event] = []
    commit(store, change, at_the_freeze(store), on_event=events.append)
    told = [event.text for event in events if isinstance(event, Notice)]
    success = read_success(store, JOB.destination)
    assert success is not None
    assert success.iostatistics is not None
    found = success.iostatistics
    assert found.meanstatistics["task.mean"] == Mean(3, 1000 + 10 + 1002)
    assert (found.minimums["task.min"], found.maximums["task.max"]) == (10, 1002)
    assert found.counters["committer_bytes_committed"] == 1 + 2 + 1
    assert "_0-1000 | _1-10 | _2-1002" in told[-1]


def test_packs_of_what_is_unchanged_stay():
    """Of three packs, only the one with the replaced manifest is written again."""
    store = MemoryStore()
    part = MOST_ENTRIES // 4
    write_job(store, JOB, {t: {f"p={t}/{n}": b"" for n in range(part)} for t in range(9)})
    before = loaded(context(store))
    assert len(before.packs) == 3
    save(store, 5, 1, {"p=5/again": b"x"})
    read, found = changed(store, before)
    assert read == 1
    assert len({*before.packs} & {*found.packs}) == 2
    assert [pack.files for pack in found.packs if pack not in before.packs] == [part * 3, 1]


def test_a_manifest_whose_entries_are_in_two_packs_leaves_both():
    store = MemoryStore()
    many = MOST_ENTRIES - 300
    write_job(store, JOB, {t: {f"p={t}/{n}": b"" for n in range(many)} for t in range(2)})
    before = loaded(context(store))
    save(store, 1, 1, {"p=2/again": b"x"})
    read, found = changed(store, before)
    assert (read, found.files) == (1, many + 1)


# Where it cannot be told what an old manifest named, everything is loaded


def test_a_directory_that_may_be_of_a_replaced_manifest_is_asked_for_by_the_others():
    """An empty directory that only the replaced manifest names is not made."""
    store = with_job({task: {f"p=1/f{task}": b"x"} for task in range(5)})
    empty = decode_manifest(store.read(manifest_path(2)), manifest_path(2)).directories
    assert empty
    edit(store, 2, directories=[*empty, structs.replace(empty[0], d=f"{empty[0].d[:-1]}9")])
    before = loaded(context(store))
    save(store, 2, 1, {"p=9": b"no directory"})
    read, _ = changed(store, before)
    assert read == 5


def test_manifests_of_one_attempt_are_all_read_again():
    """Its entries do not say which of two manifests named them."""
    store = with_job({task: {f"f{task}-{n}": b"x" for n in range(2)} for task in range(4)})
    path = manifest_path(0)
    manifest = decode_manifest(store.read(path), path)
    for name, file in zip((path, f"{JOB.manifests}/task_7-manifest.json"), manifest.files, strict=True):
        store.write(name, encode_manifest(structs.replace(manifest, files=[file])))
    before = loaded(context(store))
    assert before.tasks == 5
    save(store, 0, 1, {"again": b"x"})
    read, found = changed(store, before)
    assert (read, found.files) == (5, 2 * 3 + 2)


@pytest.mark.parametrize("fields", [{"task_attempt_id": None}, {"files": []}])
def test_a_manifest_that_does_not_say_whose_its_files_are_is_no_reason_to_guess(fields: dict[str, Any]):
    store = with_job({task: {f"f{task}": b"x"} for task in range(4)})
    if "task_attempt_id" in fields:
        fields |= {"task_attempt_dir": None, "files": []}
    edit(store, 1, **fields)
    before = loaded(context(store))
    save(store, 1, 1, {"again": b"x"})
    assert changed(store, before)[0] == 4


# Nothing of what went is left


def test_a_name_that_only_a_replaced_manifest_had_is_free(store: MemoryStore):
    write_job(store, JOB, {task: {f"p=1/f{task}": b"x"} for task in range(3)})

    def change() -> None:
        save(store, 1, 1, {"p=2/other": b"y"})
        save(store, 3, 0, {"p=1/f1": b"of another task"})

    assert commit(store, change, at_the_freeze(store)) == 5
    assert visible_files(store, JOB.destination)["p=1/f1"] == b"of another task"


def test_a_manifest_that_was_replaced_by_one_of_its_size_is_read_again(store: MemoryStore):
    write_job(store, JOB, {task: {f"f{task}": b"x"} for task in range(3)})
    before = loaded(context(store))
    path = manifest_path(1)
    text = store.read(path)
    store.write(path, text.replace(b"/f1", b"/g1"))
    assert store.read(path) != text
    assert changed(store, before)[0] == 1


def test_workers_of_other_processes_find_each_pack_on_the_store():
    store = with_job({task: {f"f{task}": b"x"} for task in range(SECTION_ENTRIES)})
    executor = OfWorkers(lambda permits: Worker(store, JOB, permits, in_driver=False))
    commit(store, lambda: save(store, 1, 1, {"g": b"x"}), "move_directory", executor=executor)
    names = visible_files(store, JOB.destination).keys()
    assert names == {"g"} | {f"f{task}" for task in range(SECTION_ENTRIES) if task != 1}


def test_a_commit_that_dies_after_it_has_loaded_again_is_finished_by_the_next(store: MemoryStore):
    write_job(store, JOB, {task: {f"f{task}": b"x"} for task in range(5)})
    change = do_at(at_the_freeze(store), lambda: save(store, 1, 1, {"again": b"x"}))

    def die(call: StoreCall) -> None:
        if call.operation == "rename":
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(WrappedStore(store, before=change), before=die), JOB)
    run_commit(store, JOB)
    assert visible_files(store, JOB.destination).keys() == {"f0", "again", "f2", "f3", "f4"}


class LostWithPacks(DirectoryCoordinator):
    """A coordinator that is lost once, while it is told what packs name that stay."""

    is_lost = was_lost = False

    def renew(self) -> None:
        self.is_lost = False
        self.forget()

    def collect(self, batch: int, directories: Sequence[str], files: bytes) -> None:
        if batch < 0 and not self.was_lost:
            self.is_lost = self.was_lost = True
        if self.is_lost:
            raise CoordinatorLostError("the coordinator was lost")
        super().collect(batch, directories, files)


def test_a_coordinator_that_is_lost_meanwhile_is_told_all_of_it_again(store: MemoryStore):
    write_job(store, JOB, {task: {f"f{task}": b"x"} for task in range(5)})
    executor = InlineExecutor(lambda permits: Worker(store, JOB, permits, in_driver=True))
    executor.directories = coordinator = LostWithPacks()

    def change() -> None:
        save(store, 1, 1, {"again": b"x"})
        save(store, 5, 0, {"f0": b"of another task"})

    with pytest.raises(PreflightError, match="f0: would be written more than once"):
        commit(store, change, at_the_freeze(store), executor=executor)
    assert coordinator.was_lost
