"""A task's commit is a manifest of what its attempt wrote; it moves no data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import TaskCommitError
from ray_committer.job_files.job_state import begin_state
from ray_committer.options import CommittedTask
from ray_committer.places.staged_files import StagedFiles
from ray_committer.protocol.manifest import TaskManifest, decode_manifest, stamp_of
from ray_committer.protocol.state import UNSTAMPED, new_state
from ray_committer.stages.commit_task import commit_task
from ray_committer.testing import MemoryStore, WrappedStore, fail_at
from ray_committer.testing.harness import set_up_attempt, source_of
from ray_committer.testing.harness import write_attempt as put_files
from tests.stages.support import JOB, WHEN, calls_of, each_crash, files_of, requests, staged_name

STAMP = "stamp"
TASK, ATTEMPT = "task_job_1_m_000000", "attempt_job_1_m_000000_0"
PATH = JOB.manifest(TASK)
FILES = {"p=1/a": b"a", "p=1/b": b"bb", "p=2/q=1/c": b"ccc", "top": b""}


def prepared(files: dict[str, bytes] | None = None) -> MemoryStore:
    """A task attempt that has written its files."""
    store = MemoryStore()
    store.mkdirs(JOB.manifests)
    begin_state(store, JOB, new_state(stamp=STAMP))
    put_files(store, JOB, set_up_attempt(store, JOB, 0, 0), FILES if files is None else files)
    return store


def commit(store, attempts: int = 1) -> CommittedTask:
    return commit_task(store, JOB, task_id=TASK, task_attempt_id=ATTEMPT, stamp=STAMP, attempts=attempts)


def saved(store: MemoryStore) -> TaskManifest:
    return decode_manifest(store.read(PATH), PATH)


@pytest.mark.parametrize("files", [{}, {"a": b"x"}, FILES])
def test_the_manifest_names_each_file_where_it_is_and_where_it_must_go(files: dict[str, bytes]):
    store = prepared(files)
    committed = commit(store)
    root = f"memory://test{JOB.task_attempt(ATTEMPT)}"
    manifest = saved(store)
    found = {(file.s, file.d, file.z) for file in manifest.files}
    assert found == {
        (f"{root}/{name}", f"memory://test/table/{name}", len(data)) for name, data in files.items()
    }
    assert committed.files == len(files)
    assert committed.text == store.read(PATH)


def test_the_manifest_names_its_job_task_and_attempt():
    store = prepared()
    commit(store)
    manifest = saved(store)
    assert (manifest.job_id, manifest.job_attempt_number) == ("job_1", 0)
    assert (manifest.task_id, manifest.task_attempt_id) == (TASK, ATTEMPT)
    assert manifest.task_attempt_dir == f"memory://test{JOB.task_attempt(ATTEMPT)}"
    assert stamp_of(manifest) == STAMP


def test_a_task_of_a_job_that_hadoop_set_up_leaves_no_stamp():
    store = prepared()
    store.delete_directory(JOB.state)
    commit_task(store, JOB, task_id=TASK, task_attempt_id=ATTEMPT, stamp=UNSTAMPED, attempts=1)
    assert stamp_of(saved(store)) is None


def test_no_file_is_moved():
    store = prepared()
    before = store.files(JOB.tasks)
    commit(store)
    assert store.files(JOB.tasks) == before
    assert sorted(files_of(store)) == sorted([*before, PATH])


@pytest.mark.parametrize("files", [0, 1, 200])
@pytest.mark.parametrize("directories", [1, 10])
def test_a_task_costs_one_listing_per_directory_and_four_requests(files: int, directories: int):
    store = prepared({f"p={number % directories}/f{number}": b"x" for number in range(files)})
    listings = 1 + min(files, directories)  # the attempt and its partitions
    assert requests(store, commit) == Counter(list_status=listings, read_state=2, write=1, replace=1)


def with_staged_files(files: int, directories: int) -> tuple[MemoryStore, StagedFiles]:
    """A task attempt that has written files beside those of another one."""
    store = prepared({})
    names = [f"p={number % directories}/q=1/{number}" for number in range(files)]
    for attempt in (1, 0):
        attempt_id = f"attempt_job_1_m_000000_{attempt}"
        data = {staged_name(name, attempt=attempt): name.encode() for name in names}
        put_files(store, JOB, attempt_id, data)
        places = {source_of(JOB, attempt_id, name): f"/table/{name}" for name in data}
    return store, StagedFiles(store, JOB, ATTEMPT, lambda: True, places)


def commit_staged(store, staged: StagedFiles) -> None:
    commit_task(
        store, JOB, task_id=TASK, task_attempt_id=ATTEMPT, stamp=STAMP, staged=staged, attempts=1
    )


@pytest.mark.parametrize("files", [0, 1, 7])
def test_the_manifest_names_the_staged_files_of_its_own_attempt(files: int):
    store, staged = with_staged_files(files, 3)
    commit_staged(store, staged)
    manifest = saved(store)
    assert {(file.s, file.d, file.z, file.m is None) for file in manifest.files} == {
        (f"memory://test{path}", f"memory://test{place}", store.get_status(path).size, False)
        for path, place in staged.places.items()
    }
    directories = {f"p={number}" for number in range(min(files, 3))}
    assert {(entry.d, entry.l) for entry in manifest.directories or ()} == {
        (f"memory://test/table/{directory}{below}", level)
        for directory in directories
        for level, below in enumerate(("", "/q=1"), 1)
    }


@pytest.mark.parametrize("own", [False, True])
def test_a_look_at_staged_files_costs_one_request_for_each_whatever_is_beside_them(own: bool):
    store, staged = with_staged_files(30, 10)
    staged.has_own_directory = own
    assert requests(store, lambda one: commit_staged(one, staged)) == Counter(
        get_status=30, list_status=own, read_state=2, write=1, replace=1
    )


def test_files_beside_those_of_others_and_of_the_attempt_alone_are_in_one_manifest():
    store = prepared({staged_name("p=1/a"): b"a", "p=1/_metadata": b"m"})
    place = staged_name("/table/p=1/a")
    staged = StagedFiles(store, JOB, ATTEMPT, lambda: True, has_own_directory=True)
    staged.places[source_of(JOB, ATTEMPT, staged_name("p=1/a"))] = place
    commit_staged(store, staged)
    manifest = saved(store)
    assert [file.s.removeprefix(f"memory://test{JOB.tasks}/") for file in manifest.files] == [
        f"in/791a7b3a1c84e05cbf520166fc1107ee/{staged_name('a')}",
        f"{ATTEMPT}/p=1/_metadata",
    ]
    assert [entry.d for entry in manifest.directories or ()] == ["memory://test/table/p=1"]


@pytest.mark.parametrize("kind", ["gone", "a directory"])
def test_an_attempt_of_which_a_staged_file_is_gone_saves_no_manifest(kind: str):
    store, staged = with_staged_files(3, 1)
    path = min(staged.places)
    store.delete_file(path)
    if kind != "gone":
        store.mkdirs(path)
    with pytest.raises(TaskCommitError, match="run the task again"):
        commit_staged(store, staged)
    assert PATH not in store.files()


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_leaves_a_whole_manifest_or_none(when: str, error: type[OSError]):
    calls = calls_of(prepared(), commit)
    for call in calls:
        store = prepared()
        with pytest.raises((error, TaskCommitError)):
            commit(WrappedStore(store, **{when: fail_at(call.number, error)}))
        assert PATH not in store.files() or len(saved(store).files) == len(FILES)
        assert commit(store).files == len(FILES)


def test_a_task_that_crashed_anywhere_can_commit_again():
    whole = prepared()
    expected = commit(whole)
    for store in each_crash(prepared, commit):
        assert commit(store) == expected
        assert files_of(store) == files_of(whole)


def test_an_attempt_whose_directory_is_gone_saves_no_manifest():
    store = prepared()
    store.delete_directory(JOB.task_attempt(ATTEMPT))
    with pytest.raises(TaskCommitError, match=r"is gone.*run the task again"):
        commit(store)
    assert files_of(store) == {}


def test_files_with_any_name_arrive(dest: Path, write_job, tree):
    """Hidden ones, those of the protocol's kind, and with a colon, which Hadoop's committer refuses."""
    names = ("part-0/data", "part-0/.hidden", "part-0/_metadata", "a:b/f", "d/12:30.txt", ":", "file:/f")
    write_job({0: {name: name for name in names}})
    ray_committer.commit_job(str(dest))
    assert tree() == {name: name for name in names}
