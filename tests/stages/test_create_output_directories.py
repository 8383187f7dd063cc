"""Directories are made though workers are lost, and what is in the way has a name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_committer.errors import CommitCancelledError, CommitConflictError, CommitStateUnknownError
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.context import JobContext
from ray_committer.stages.create_output_directories import ROUNDS, create_output_directories
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing.harness import put_file
from ray_committer.work.worker import Worker
from tests.stages.support import JOB, WHEN, at, calls_of, context, do_at, requests, with_job


class Losing(InlineExecutor):
    """Its workers claim directories and are lost, as often as told."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        super().__init__(lambda permits: Worker(store, JOB, permits, in_driver=True))
        self.times = times

    def run(self, work: Any, items: Iterable[Any]) -> Iterator[Any]:
        if self.times == 0 or getattr(work, "func", work).__name__ != "_make_claimed":
            return super().run(work, items)
        self.times -= 1
        self.directories.claim(1)
        return iter(())


@pytest.fixture
def memory() -> MemoryStore:
    return with_job({0: {f"p={number}/a": b"x" for number in range(7)}})


@pytest.mark.parametrize("times", [0, 1, ROUNDS - 1])
def test_what_lost_workers_had_claimed_is_made(memory: MemoryStore, times: int):
    report = run_commit(memory, JOB, executor=Losing(memory, times))
    assert (report.directories, report.moved) == (7, 7)


class Claimed(DirectoryCoordinator):
    """Notes how many directories were claimed at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def claim(self, limit: int) -> list[str]:
        claimed = super().claim(limit)
        self.sizes.append(len(claimed))
        return claimed


@pytest.mark.parametrize(
    ("width", "threads", "sizes"),
    [
        (1, 1, [1] * 7 + [0]),
        (32, 1, [1] * 7 + [0] * 7),
        (2, 2, [2, 2, 2, 1, 0, 0]),
        (2, 64, [4, 3, 0, 0]),
    ],
)
def test_a_worker_claims_as_many_as_it_makes_at_once(
    memory: MemoryStore, width: int, threads: int, sizes: list[int]
):
    executor = InlineExecutor(lambda permits: Worker(memory, JOB, permits, in_driver=True))
    executor.width, executor.threads = width, threads
    executor.directories = claimed = Claimed()
    run_commit(memory, JOB, executor=executor)
    assert claimed.sizes == sizes


def test_workers_that_are_lost_again_and_again_stop_the_commit(memory: MemoryStore):
    with pytest.raises(CommitStateUnknownError, match="7 directories could not be made"):
        run_commit(memory, JOB, executor=Losing(memory, ROUNDS))
    assert run_commit(memory, JOB).moved == 7


def test_what_was_in_the_way_and_has_gone_is_deleted_by_nobody(memory: MemoryStore):
    deleted: list[StoreCall] = []

    def refuse(call: StoreCall) -> None:
        if call.operation == "mkdirs":
            raise FileExistsError(17, "File exists", call.paths[0])
        if call.operation == "delete_file":
            deleted.append(call)

    with pytest.raises(CommitConflictError, match=r"/table/p=0: is a file where"):
        run_commit(WrappedStore(memory, before=refuse), JOB)
    assert deleted == []


@pytest.mark.parametrize("name", ["p=1", "p=1/q=2"])
def test_a_link_to_nothing_at_any_height_is_refused_by_its_own_name(tmp_path: Path, name: str):
    store, link = LocalStore(StoreSpec("file")), tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "nowhere")
    leaf = f"{tmp_path}/p=1/q=2"
    with pytest.raises(CommitConflictError, match=f"{name}: is a link to nothing where the job needs"):
        create_output_directories(collected(context(store), [leaf]))
    assert link.is_symlink()


LEAVES = ["/table/p=1/q=1", "/table/p=1/q=2", "/table/p=2"]


def make(store, directories: Iterable[str] = LEAVES) -> int:
    return create_output_directories(collected(context(store), directories))


def collected(found: JobContext, directories: Iterable[str]) -> JobContext:
    found.executor.directories.collect(0, list(directories), b"")
    return found


@pytest.mark.parametrize("leaves", [0, 1, 7, 100])
def test_each_leaf_is_made_by_one_request(leaves: int):
    store, names = MemoryStore(), [f"/table/p={number}/q=1" for number in range(leaves)]
    inner = [f"/table/p={number}" for number in range(leaves)]
    assert requests(store, lambda one: make(one, names + inner)) == Counter(mkdirs=leaves)
    for path in names + inner:
        assert store.list_status(path) is not None


def test_a_store_without_directories_is_not_asked():
    store = MemoryStore(real_directories=False)
    assert requests(store, make) == Counter()
    assert make(store) == 0


def test_directories_that_are_there_already_are_not_an_error():
    store = MemoryStore()
    assert [make(store), make(store)] == [3, 3]


def test_what_is_made_is_not_asked_for_again_by_the_same_run():
    found = collected(context(MemoryStore()), LEAVES)
    assert [create_output_directories(found) for _ in range(2)] == [3, 0]


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileNotFoundError])
def test_a_directory_that_cannot_be_made_is_named_and_the_same_command_goes_on(
    when: str, error: type[OSError]
):
    store = MemoryStore()
    faulty = WrappedStore(store, **{when: at("mkdirs", error(5, "denied"), "/q=2")})
    with pytest.raises(CommitStateUnknownError, match=r"/table/p=1/q=2: could not be made \(denied\)"):
        make(faulty)
    assert make(store) == 3


@pytest.mark.parametrize("blocking", ["/table", "/table/p=1", "/table/p=1/q=1"])
def test_a_file_at_any_height_is_refused_by_its_own_name(blocking: str):
    store = MemoryStore()
    put_file(store, blocking, b"in the way")
    with pytest.raises(
        CommitConflictError, match=f"^{blocking}: is a file where the job needs"
    ) as caught:
        make(store)
    assert "give it up with `ray-committer abort DEST --undo`" in caught.value.advice
    assert caught.value.advice.endswith(f"run the same command: hdfs dfs -rm memory://test{blocking}")
    assert store.files() == {blocking: b"in the way"}


def test_a_look_at_what_is_in_the_way_that_fails_is_an_error():
    store = MemoryStore()
    put_file(store, "/table/p=2", b"in the way")
    with pytest.raises(PermissionError):
        make(WrappedStore(store, before=at("get_status", PermissionError("denied"))))
    assert store.files() == {"/table/p=2": b"in the way"}


def test_a_cancelled_commit_makes_no_directory():
    store = MemoryStore()
    with pytest.raises(CommitCancelledError):
        create_output_directories(collected(context(store, cancelled=True), LEAVES))
    assert store.get_status("/table") is None


def test_directories_that_a_worker_left_when_it_was_cancelled_are_made_by_the_next_run():
    store = MemoryStore()
    found = collected(context(WrappedStore(store, before=do_at("mkdirs", lambda: cancel()))), LEAVES)

    def cancel() -> None:
        found.executor.cancel()
        found.cancelled.cancel()

    with pytest.raises(CommitCancelledError):
        create_output_directories(found)
    assert make(store) == 3


def claim_of_directories(job: JobAttempt, task: int, status: int) -> None:
    """Let a manifest say this of each directory, as Hadoop's do (2: is a file, 3: is a directory)."""
    path = Path(job.manifest(f"task_1_m_{task:06d}"))
    content = json.loads(path.read_bytes())
    for directory in content["directories"]:
        directory["t"] = status
    path.write_text(json.dumps(content))


def test_what_manifests_say_of_a_directory_makes_no_difference(store, write_job, dest: Path, tree):
    job = write_job({task: {f"p=1/q=1/f{task}": "x"} for task in range(5)})
    for task in range(5):
        claim_of_directories(job, task, task)
    calls = calls_of(store, lambda one: run_commit(one, job))
    assert [call.paths[0] for call in calls if call.operation == "mkdirs"] == [f"{dest}/p=1/q=1"]
    assert len(tree()) == 5


def test_a_directory_that_was_a_file_at_task_commit_is_not_deleted(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/f": "x"}})
    claim_of_directories(job, 0, 2)
    (dest / "p=1").mkdir()
    (dest / "p=1" / "old").write_text("old")
    run_commit(store, job)
    assert tree() == {"p=1/f": "x", "p=1/old": "old"}
