"""Manifests are loaded, checked one by one and counted; a bad one is refused by its name."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ray_committer.errors import (
    CommitCancelledError,
    ManifestError,
    ManifestReplacedError,
    MissingManifestsError,
    PathError,
    PreflightError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import adopt_state
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.protocol.manifest import digest
from ray_committer.stages.list_manifests import ListedManifests
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests, save_packs
from ray_committer.stores.base import FileStatus
from ray_committer.testing import MemoryStore, WrappedStore, write_job
from ray_committer.work import packs as packs_module
from ray_committer.work.packs import PackReader
from ray_committer.work.worker import Worker
from tests.stages.manifests import edit, refused, set_dest
from tests.stages.support import (
    JOB,
    OfWorkers,
    context,
    do_at,
    loaded,
    manifest_path,
    requests,
    stamp_manifest,
    stamp_of_job,
    with_job,
)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (set_dest("relative/a"), PathError, "not an absolute path"),
        (lambda c: c["files"][0].update(d=c["files"][0]["d"] + "%zz"), PathError, "not an escape"),
        (lambda c: c["files"][0].pop("z"), ManifestError, "`z`"),
        (lambda c: c.pop("files"), ManifestError, "`files`"),
        (lambda c: c.update(jobId="job_2"), ManifestError, "belongs to job job_2"),
    ],
)
def test_a_manifest_that_would_lose_or_misplace_data_is_refused_by_name(
    store, write_job, change, error: type[Exception], text: str
):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    path = edit(job, 1, change)
    raised = refused(store, job)
    assert isinstance(raised, error)
    assert str(path) in str(raised)
    assert text in str(raised)


def test_a_file_that_one_manifest_names_twice_is_refused(store, write_job, dest: Path):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    path = edit(job, 1, lambda c: c["files"].append({**c["files"][0], "d": f"file:{dest}/c"}))
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    assert str(path) in str(error)
    assert "/b: is named twice" in str(error)


def with_tasks(tasks: int, *, store: MemoryStore | None = None) -> MemoryStore:
    """A job whose task `n` has written `n` files of `n` bytes, each in a partition of its own."""
    store = store or MemoryStore()
    files = {n: {f"p={n}/f{file}": b"x" * n for file in range(n)} for n in range(tasks)}
    write_job(store, JOB, files)
    return store


def load(store: Any, options: CommitOptions | None = None):
    return loaded(context(store, options))


def cost(store: MemoryStore) -> Counter[str]:
    """What loading asks of the store, whose job's state is known."""
    stamp = stamp_of_job(store)
    return requests(store, lambda one: loaded(context(one), stamp))


@pytest.mark.parametrize("tasks", [0, 1, 2, 30])
def test_manifests_are_loaded_in_the_order_of_their_names(tasks: int):
    store = with_tasks(tasks)
    refs = load(store).manifests
    assert [f"{JOB.manifests}/{ref.name}" for ref in refs] == [manifest_path(n) for n in range(tasks)]
    assert [ref.files for ref in refs] == list(range(tasks))
    assert [ref.digest for ref in refs] == [digest(data) for data in store.files(JOB.manifests).values()]
    assert load(store).files == sum(range(tasks))
    assert sum(pack.ref.bytes for pack in load(store).packs) == sum(n * n for n in range(tasks))


@pytest.mark.parametrize("tasks", [0, 1, 30])
def test_loading_costs_one_listing_and_one_read_per_manifest(tasks: int):
    assert cost(with_tasks(tasks)) == Counter(list_status=1, read=tasks)


def test_where_a_listing_is_not_cheap_no_source_is_looked_at():
    store = with_tasks(4, store=MemoryStore(listing_is_cheap=False))
    assert cost(store) == Counter(list_status=1, read=4)


@pytest.mark.parametrize("stamp", [None, "of_another_job"])
def test_a_manifest_of_another_job_of_that_id_is_refused(stamp: str | None):
    store = with_tasks(3)
    stamp_manifest(store, 1, stamp)
    with pytest.raises(ManifestError, match="was not written for this job") as caught:
        load(store)
    assert manifest_path(1) in str(caught.value)


def without_state(stamp: str | None) -> MemoryStore:
    """A job that Hadoop's own committer has set up, whose tasks know no stamp."""
    store = with_tasks(3)
    for task in range(3):
        stamp_manifest(store, task, None)
    stamp_manifest(store, 1, stamp)
    store.delete_directory(JOB.state)
    return store


def test_in_a_job_that_hadoop_set_up_only_unstamped_manifests_are_right():
    assert len(load(without_state(None)).manifests) == 3
    with pytest.raises(ManifestError, match="was not written for this job"):
        load(without_state("of_an_ended_job"))


@pytest.fixture
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs_module, "MOST_ENTRIES", 40)
    monkeypatch.setattr(packs_module, "SECTION_ENTRIES", 7)


@pytest.mark.usefixtures("small_packs")
@pytest.mark.parametrize("workers", [False, True])
def test_full_packs_are_saved_during_the_load_and_the_last_one_waits_in_this_process(workers: bool):
    store = with_tasks(30)
    executor = OfWorkers if workers else InlineExecutor
    found = context(
        store, executor=executor(lambda permits: Worker(store, JOB, permits, in_driver=True))
    )
    one = loaded(found)
    *full, last = one.packs
    assert len(full) >= 435 / 40 - 1
    assert all(pack.ref.files <= 40 for pack in one.packs)
    assert all(pack.data is None and pack.ref.name for pack in full)
    assert (last.ref.name == "", last.data is None) == ((False, True) if workers else (True, False))
    saved = save_packs(found, one)
    assert {pack.ref.name for pack in saved.packs} == {
        path.rpartition("/")[2] for path in store.files(JOB.packs)
    }
    assert entries_of(store, saved) == {f"/table/p={n}/f{file}" for n in range(30) for file in range(n)}


@pytest.mark.usefixtures("small_packs")
def test_a_dry_run_keeps_all_packs_in_memory():
    store = with_tasks(30)
    found = context(store)
    one = load_manifests(found, ("/table",), stamp=stamp_of_job(store), changes_nothing=True)
    assert store.files(JOB.packs) == {}
    assert len(entries_of(store, one)) == 435


def entries_of(store: MemoryStore, one: LoadedManifests) -> set[str]:
    reader = PackReader(store, JOB)
    return {entry.dest for pack in one.packs for entry in reader.entries(pack)}


@pytest.mark.usefixtures("small_packs")
def test_a_job_that_is_removed_while_it_is_loaded_is_not_made_again():
    store = with_tasks(30)
    remove = do_at("write", lambda: store.delete_directory("/table/_temporary"))
    with pytest.raises(MissingManifestsError, match="another job's clean-up"):
        load(WrappedStore(store, before=remove))
    assert store.get_status("/table/_temporary") is None


def test_in_a_job_that_hadoop_set_up_the_directory_of_packs_is_made():
    store = without_state(None)
    adopt_state(store, JOB)
    store.remove_empty_directory(JOB.packs)
    found = context(store)
    (pack,) = save_packs(found, loaded(found)).packs
    assert store.read(f"{JOB.packs}/{pack.ref.name}") == pack.data


def test_the_coordinator_is_given_each_directory_once_however_often_they_are_loaded():
    found = context(with_tasks(5))
    for _ in range(2):
        loaded(found)
        assert found.executor.directories.plan() == 4
        assert found.executor.directories.repeated() == frozenset()


def test_only_files_with_the_name_of_a_manifest_are_loaded():
    store = with_tasks(2)
    store.write(f"{JOB.manifests}/task-manifest.json.tmp", b"torn")
    store.write(f"{JOB.manifests}/notes.txt", b"x")
    store.mkdirs(f"{JOB.manifests}/directory")
    assert len(load(store).manifests) == 2


def test_attempts_that_the_driver_does_not_count_are_left_out_only_on_request():
    store = with_tasks(3)
    _, ref, _ = load(store).manifests
    counted = (CommittedTask(ref.name, ref.digest, ref.task_attempt_id),)
    for ignore, found in ((True, 1), (False, 3)):
        options = CommitOptions(committed_tasks=counted, ignore_other_attempts=ignore)
        assert len(load(store, options).manifests) == found


@pytest.mark.parametrize(
    ("spoil", "error", "text"),
    [
        (lambda store: store.write(manifest_path(1), b""), ManifestError, "is empty"),
        (lambda store: store.mkdirs(manifest_path(9)), ManifestError, "is a directory"),
        (lambda store: store.delete_directory(JOB.manifests), MissingManifestsError, "is gone, perhaps"),
    ],
)
def test_what_the_listing_shows_to_be_wrong_is_named_before_a_manifest_is_read(spoil, error, text: str):
    store = with_tasks(2)
    spoil(store)

    def run(one) -> None:
        with pytest.raises(error, match=text):
            load(one)

    assert requests(store, run) - Counter(read_state=1) <= Counter(list_status=2)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda store: store.delete_file(manifest_path(1)), MissingManifestsError, "is now gone"),
        (lambda store: store.write(manifest_path(1), b"{}"), ManifestReplacedError, "has 2 now"),
    ],
)
def test_a_manifest_that_changes_between_the_listing_and_its_read_is_named(change, error, text: str):
    store = with_tasks(3)
    spoil = do_at("read", lambda: change(store))
    with pytest.raises(error, match=text) as caught:
        load(WrappedStore(store, before=spoil))
    assert manifest_path(1) in str(caught.value)


def test_a_cancelled_commit_reads_no_manifest():
    store = with_tasks(3)

    def run(one) -> None:
        with pytest.raises(CommitCancelledError):
            loaded(context(one, cancelled=True), "stamp")

    assert requests(store, run) == Counter(list_status=1)


class Loses(InlineExecutor):
    """An executor that loses a manifest of the last batch, or this whole batch."""

    def __init__(self, store: MemoryStore, *, whole: bool) -> None:
        super().__init__(lambda permits: Worker(store, JOB, permits, in_driver=True))
        self._whole = whole

    def run(self, work: Any, items: Any) -> Any:
        *most, batch = super().run(work, items)
        yield from most
        if not self._whole:
            yield replace(batch, refs=batch.refs[1:])


@pytest.mark.parametrize("whole", [False, True])
def test_a_manifest_that_was_listed_and_not_loaded_stops_the_commit(whole: bool):
    store = with_job({task: {f"{task}": b"x"} for task in range(20)})
    with pytest.raises(MissingManifestsError, match=r"manifests are listed, \d+ were loaded"):
        loaded(context(store, executor=Loses(store, whole=whole)))


def test_what_is_listed_takes_few_bytes_in_the_order_of_its_names():
    names = [f"task_1_m_{number:06d}-manifest.json" for number in reversed(range(1_000))]
    names[0] = "a\udc80ä-manifest.json"
    statuses = [
        FileStatus(f"/table/{name}", False, size=place, modified_milliseconds=place)
        for place, name in enumerate(names)
    ]
    given = [(status.name, status.size) for status in statuses]
    tracemalloc.start()
    try:
        listed = ListedManifests(statuses)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(each.name, each.size) for each in listed] == sorted(given)
    assert listed[2:4] == [listed[2], listed[3]]
    assert len({each.mark for each in listed}) == len(listed) == 1_000
    assert taken < 100 * len(listed)
    assert not statuses
