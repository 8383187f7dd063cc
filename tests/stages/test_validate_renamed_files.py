"""Every file is compared once, in whatever share its directory is, and each difference has a name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitCancelledError, CommitStateUnknownError, ValidationError
from ray_committer.executors.base import Supplied
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, context, record, requests, resumed, source_path, state_of, with_job

VALIDATE = CommitOptions(validate=True)


def inline(store: MemoryStore, job: JobAttempt) -> InlineExecutor:
    return InlineExecutor(lambda permits: Worker(store, job, permits, in_driver=True))


@pytest.mark.parametrize("table", ["/t0", "/t1", "/t2", "/t3", "/t4"])
def test_files_beside_partitions_are_compared_in_any_share(table: str):
    store, job = MemoryStore(), new_job_attempt(table, "job_1", 0)
    write_job(store, job, {0: {f"f{number}": b"" for number in range(2500)}, 1: {"p=1/a": b"x"}})
    executor = inline(store, job)
    executor.width = 3
    assert run_commit(store, job, VALIDATE, executor=executor).validated == 2501


@pytest.mark.parametrize("identity", list(Identity))
def test_unchanged_files_are_what_their_manifests_say(identity: Identity):
    store = with_job(
        {0: {"p=1/a": b"x", "p=2/b": b"yy"}, 1: {"c": b""}, 2: {}}, store=MemoryStore(identity=identity)
    )
    assert run_commit(store, JOB, VALIDATE).validated == 3


def shortened(store: MemoryStore) -> None:
    store.write("/table/p=1/a", b"")


def replaced_by_one_of_its_size(store: MemoryStore) -> None:
    store.write("/table/p=1/a", b"y")


def removed(store: MemoryStore) -> None:
    store.delete_file("/table/p=1/a")


def removed_with_its_directory(store: MemoryStore) -> None:
    store.delete_directory("/table/p=1")


def replaced_by_a_directory(store: MemoryStore) -> None:
    store.delete_file("/table/p=1/a")
    store.mkdirs("/table/p=1/a")


@pytest.mark.parametrize(
    ("change", "content", "text"),
    [
        (shortened, b"x", "/table/p=1/a: has 0 bytes, its manifest says 1"),
        (replaced_by_one_of_its_size, b"x", "/table/p=1/a: was changed after its manifest was saved"),
        (removed, b"x", "/table/p=1/a: is missing"),
        (removed_with_its_directory, b"x", "/table/p=1/a: is missing"),
        (replaced_by_a_directory, b"x", "/table/p=1/a: is a directory"),
        (replaced_by_a_directory, b"", "/table/p=1/a: is a directory"),
    ],
)
@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.MODIFICATION_TIME])
def test_what_changed_after_its_rename_is_named_before_the_job_is_committed(
    identity: Identity, change: Callable[[MemoryStore], None], content: bytes, text: str
):
    store = with_job({0: {"p=1/a": content, "p=2/b": b"yy"}}, store=MemoryStore(identity=identity))

    def spoil(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1] == "/table/p=2/b":
            change(store)

    with pytest.raises(ValidationError, match=text):
        run_commit(WrappedStore(store, after=spoil), JOB, VALIDATE)
    assert state_of(store).phase is Phase.RECORDED


def test_only_the_first_differences_are_named():
    store = with_job({0: {f"f{number:02d}": b"x" for number in range(20)}})

    def spoil(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1] == "/table/f19":
            for number in range(20):
                store.write(f"/table/f{number:02d}", b"")

    with pytest.raises(ValidationError) as caught:
        run_commit(WrappedStore(store, after=spoil), JOB, VALIDATE)
    assert str(caught.value).startswith("5 or more files differ")
    assert str(caught.value).count("has 0 bytes") == 5


def test_files_in_directories_that_nobody_knows_are_not_taken_for_compared():
    class Forgetful(DirectoryCoordinator):
        def share(self, number, shares):
            return []

    store = with_job({0: {"p=1/a": b"x", "b": b"y"}})
    executor = inline(store, JOB)
    executor.directories = Forgetful()
    with pytest.raises(ValidationError, match="1 of 2 files were compared"):
        run_commit(store, JOB, VALIDATE, executor=executor)


class Lossy(InlineExecutor):
    """Loses the results that references name, as often as told."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        super().__init__(lambda permits: Worker(store, JOB, permits, in_driver=True))
        self.times = times

    def run(self, work, items):
        return super().run(work, map(self._lose, items))

    def _lose(self, item):
        if not self.times or not isinstance(item, Supplied) or not item.refs:
            return item
        self.times -= 1
        return replace(item, refs=(None,) * len(item.refs))


def test_what_was_lost_with_its_node_is_made_again():
    store = with_job({0: {"a": b"x"}, 1: {"p=1/b": b"y"}})
    executor = Lossy(store, times=3)
    assert run_commit(store, JOB, VALIDATE, executor=executor).validated == 2
    assert executor.times == 0


def test_what_is_lost_with_its_node_again_and_again_stops_the_commit():
    store = with_job({0: {"a": b"x"}})
    with pytest.raises(CommitStateUnknownError, match="repeatedly lost with its node"):
        run_commit(store, JOB, VALIDATE, executor=Lossy(store, times=99))
    assert run_commit(store, JOB, VALIDATE).validated == 1


def test_a_source_that_changed_after_the_record_is_found_before_the_job_is_committed(
    store, write_job, dest: Path
):
    job = write_job({0: {"p/a": "x", "p/b": "y"}})
    ray_committer.record_job(str(dest))
    source = next(Path(job.directory).rglob("b"))
    source.write_text("z")
    os.utime(source, (1, 1))
    with pytest.raises(ValidationError, match="p/b: was changed after its manifest") as caught:
        run_commit(store, job)
    assert caught.value.exit_code == 5
    assert state_of(store, job).phase is Phase.RECORDED
    assert not (dest / "_SUCCESS").exists()


def moved(tasks: int = 3, files: int = 2) -> MemoryStore:
    """A recorded job whose files are at their places: so many per task, each in one partition."""
    store = MemoryStore()
    each = {n: {f"p={n}/f{file}": b"x" for file in range(files)} for n in range(tasks)}
    write_job(store, JOB, each)
    record(store)
    for task, names in each.items():
        store.mkdirs(f"/table/p={task}")
        for name in names:
            store.rename(source_path(task, name), f"/table/{name}")
    return store


def compare(found: JobContext) -> int:
    return validate_renamed_files(found, resumed(found)[1].packs)


def cost(store: MemoryStore, expect: Any = None) -> Counter[str]:
    """What the comparison alone asks of the store, once the manifests are loaded."""

    def run(one) -> None:
        if expect is None:
            compare(context(one))
        else:
            with pytest.raises(expect):
                compare(context(one))

    return requests(store, run) - requests(store, lambda one: resumed(context(one)))


@pytest.mark.parametrize(("tasks", "files"), [(0, 0), (1, 0), (1, 1), (3, 50), (50, 3)])
def test_all_files_are_compared_by_one_listing_per_directory(tasks: int, files: int):
    store = moved(tasks, files)
    assert compare(context(store)) == tasks * files
    assert cost(store) == Counter(list_status=tasks if files else 0)


def test_directories_without_a_file_of_the_job_are_not_listed():
    store = with_job({0: {"p=1/q=1/r=1/a": b"x"}})
    record(store)
    store.mkdirs("/table/p=1/q=1/r=1")
    store.rename(source_path(0, "p=1/q=1/r=1/a"), "/table/p=1/q=1/r=1/a")
    assert cost(store) == Counter(list_status=1)


def test_a_directory_that_was_moved_whole_is_not_listed():
    store, source = moved(), source_path(1, "p=1/f0").rpartition("/")[0].removeprefix(JOB.tasks + "/")
    whole = Renamed(in_place=frozenset([source]), whole_files=2)

    def compare_others(one) -> None:
        found = context(one)
        assert validate_renamed_files(found, resumed(found)[1].packs, renamed=whole) == 4

    less = requests(store, lambda one: compare(context(one))) - requests(store, compare_others)
    assert less == Counter(list_status=1)


def test_what_is_held_back_is_not_compared_and_not_missed():
    store = moved()
    store.write("/table/p=1/f0", b"the old file, which a new one is to replace")
    found = context(store)
    _, manifests = resumed(found)
    assert validate_renamed_files(found, manifests.packs, ["/table/p=1/f0"]) == 5
    with pytest.raises(ValidationError, match="/table/p=1/f0"):
        validate_renamed_files(found, manifests.packs)


def test_files_of_others_beside_those_of_the_job_are_not_a_difference():
    store = moved()
    store.write("/table/p=1/of_another_job", b"x")
    store.mkdirs("/table/p=1/q=1")
    assert compare(context(store)) == 6


@pytest.mark.parametrize(
    "change", [shortened, removed, removed_with_its_directory, replaced_by_a_directory]
)
def test_a_difference_is_found_by_no_more_requests(change: Callable[[MemoryStore], None]):
    store = moved()
    store.rename("/table/p=1/f0", "/table/p=1/a")
    assert cost(store, ValidationError) == Counter(list_status=3)


def test_a_cancelled_comparison_is_not_a_difference():
    found = context(moved())
    _, manifests = resumed(found)
    found.cancelled.cancel()
    with pytest.raises(CommitCancelledError):
        validate_renamed_files(found, manifests.packs)
