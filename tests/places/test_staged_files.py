"""Where an attempt that chooses the names of its files writes them."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from ray_committer.job_files.job_state import is_job_of
from ray_committer.places.staged_files import MOST_DIRECTORIES, StagedFiles
from ray_committer.protocol.paths import MARK, parent
from ray_committer.protocol.staging import is_staged
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, WrappedStore, run_abort
from tests.stages.support import JOB, closed, requests, staged_name

TASK = 71
ATTEMPT = f"attempt_job_1_m_{TASK:06d}_3"
NAME = staged_name("part", TASK, 3)


def staged(store: MemoryStore | None = None, attempt: str = ATTEMPT) -> StagedFiles:
    store = MemoryStore() if store is None else store
    return StagedFiles(store, JOB, attempt, partial(is_job_of, store, JOB, setup_job(store, JOB)))


def test_a_file_of_the_destination_is_beside_those_of_every_64th_task():
    assert staged().path(f"/table/{NAME}") == f"{JOB.tasks}/root/07/{NAME}"


def test_files_for_one_directory_are_side_by_side_whoever_writes_them():
    store = MemoryStore()
    paths = [
        StagedFiles(store, JOB, f"attempt_job_1_m_{task:06d}_0", lambda: True).path(
            f"/table/p=1/q=2/{staged_name('f', task)}"
        )
        for task in range(3)
    ]
    assert len({parent(path) for path in paths if path}) == 1
    assert is_staged(parent(str(paths[0])), JOB.tasks)
    assert store.get_status(parent(str(paths[0]))) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [("p=A", "p=a"), ("p=\u00e9", "p=e\u0301"), ("p=a%3Ab", "p=a:b"), ("p=1", "p=1/p=1")],
)
def test_directories_that_a_file_system_can_take_for_one_are_apart(one: str, other: str):
    files = staged()
    assert files.path(f"/table/{one}/{NAME}") != files.path(f"/table/{other}/{NAME}")


@pytest.mark.parametrize(
    "name",
    [
        "_metadata",
        "part-r-00007",
        staged_name("f", TASK, 30),
        f"{NAME}0",
        f"job-0000000000000000-{NAME}",
    ],
)
def test_a_name_that_is_not_the_attempts_alone_is_not_staged(name: str):
    assert staged().path(f"/table/p=1/{name}") is None


def test_an_attempt_without_numbers_has_no_staged_files():
    assert staged(attempt="attempt").path(f"/table/p=1/{NAME}") is None


def test_each_directory_is_made_once_and_after_a_look_at_the_job():
    store = MemoryStore()
    stamp = setup_job(store, JOB)

    def write(found: WrappedStore) -> None:
        files = StagedFiles(found, JOB, ATTEMPT, partial(is_job_of, found, JOB, stamp))
        for number in range(9):
            files.path(f"/table/p={number % 3}/{number}{NAME}")

    assert requests(store, write) == Counter(read_state=3, mkdirs=3)


def test_a_task_with_very_many_directories_keeps_the_files_of_the_others_to_itself():
    files = staged()
    paths = [files.path(f"/table/p={number}/{NAME}") for number in range(MOST_DIRECTORIES + 2)]
    assert [number for number, path in enumerate(paths) if path is None] == [4096, 4097]
    assert files.path(f"/table/p=5/2{NAME}") is not None


def test_where_the_attempt_may_not_write_it_keeps_its_files_to_itself():
    store = MemoryStore()
    files = staged(store)
    files.store = closed(store, f"{JOB.tasks}/in")
    assert files.path(f"/table/p=1/{NAME}") is None
    assert files.path(f"/table/{NAME}") is not None


def test_a_late_task_makes_no_directory_of_a_job_that_is_over():
    store = MemoryStore()
    files = staged(store)
    run_abort(store, JOB)
    with pytest.raises(FileNotFoundError):
        files.path(f"/table/p=1/{NAME}")
    assert store.get_status("/table/_temporary") is None


def test_a_late_task_makes_no_directory_of_a_later_job_of_the_id():
    store = MemoryStore()
    files = staged(store)
    run_abort(store, JOB)
    setup_job(store, JOB)
    with pytest.raises(FileNotFoundError):
        files.path(f"/table/p=1/{NAME}")
    made = [status.name for status in store.list_status(f"{JOB.tasks}/in")]
    assert [name.startswith(MARK) for name in made] == [True]
