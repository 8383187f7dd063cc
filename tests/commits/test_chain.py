"""How many requests a commit makes in a row: at 20 ms each they are the time of a small commit.

Counted by a clock that moves only while all threads wait (`tests/rounds.py`), so no machine is too slow.
"""

from __future__ import annotations

import pytest

import ray_committer
from ray_committer import CommitOptions, CommittedTask, ConflictMode
from ray_committer.job_files.success import read_success
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import Identity, MemoryStore, StoreCall
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from tests.opening import opening
from tests.rounds import Rounds, shown
from tests.stages.set_up import set_up_with_id
from tests.stages.support import staged_name
from tests.threads import running_threads

TABLE = "/chain"
JOB_ID = "5f0c1e7a-7b1f-4c35-9a51-0d8f3c2b6a10"
"""A destination of no other test: a process remembers the jobs that it has set up."""
FILES = ("a", "b")
IN_PARTITIONS = ("p=1/a", "p=2/b")


def rounds_of(
    store: StoreOperations,
    files: tuple[str, ...],
    tasks: int = 1,
    *,
    has_results: bool = True,
    **options,
) -> list[list[StoreCall]]:
    """The rounds of the commit of a job with these files per task, by the process that set it up, which
    may have the results of the tasks."""
    rounds, job = Rounds(store), new_job_attempt(TABLE, JOB_ID, 0)
    known = CommitOptions(expected_tasks=tasks, **options)
    results: list[CommittedTask] = []

    def commit() -> None:
        report = ray_committer.commit_job(
            TABLE,
            JOB_ID,
            committed=results if has_results else None,
            executor="threads",
            options=known,
        )
        assert report.moved == tasks * len(files)

    with opening(rounds.store):
        set_up_with_id(TABLE, JOB_ID, known)
        for task in range(tasks):
            attempt = set_up_attempt(rounds.store, job, task, 0)
            named = {f"{name}-{task}": b"x" for name in files}
            write_attempt(rounds.store, job, attempt, named)
            results.append(commit_attempt(rounds.store, job, task, attempt, files=named))
        found = rounds.of(commit)
    print(shown(found))
    return found


def flat_store() -> MemoryStore:
    return MemoryStore(real_directories=False, identity=Identity.GENERATION, listing_is_cheap=False)


NEW_PARTITIONS = tuple(f"p={n}/{staged_name('f')}" for n in range(10))
APPEND, OVERWRITE = ConflictMode.APPEND, ConflictMode.OVERWRITE_PARTITIONS


@pytest.mark.parametrize(
    ("files", "mode", "most"),
    [
        (FILES, APPEND, 11),
        (IN_PARTITIONS, APPEND, 12),
        (IN_PARTITIONS, OVERWRITE, 14),
        (NEW_PARTITIONS, APPEND, 10),
    ],
)
def test_a_small_commit_makes_few_requests_in_a_row(
    files: tuple[str, ...], mode: ConflictMode, most: int
):
    assert len(rounds_of(MemoryStore(), files, mode=mode)) == most


def test_success_of_few_files_is_written_before_these_are_moved_and_names_them():
    store, files = MemoryStore(), tuple(f"file-{number}" for number in range(32))
    rounds = rounds_of(store, files)
    assert _round_of(rounds, "success-") < _round_of(rounds, "/file-0-0")
    success = read_success(store, TABLE)
    assert success is not None
    assert sorted(success.filenames) == sorted(f"memory://test{TABLE}/{name}-0" for name in files)


def test_success_of_more_files_than_are_moved_at_once_is_written_with_what_that_took():
    store, files = MemoryStore(), tuple(f"file-{number}" for number in range(33))
    rounds = rounds_of(store, files)
    assert _round_of(rounds, "success-") > _round_of(rounds, "/file-0-0")
    success = read_success(store, TABLE)
    assert success is not None
    assert success.iostatistics is not None
    assert success.iostatistics.counters["commit_file_rename"] == len(files)


def test_the_files_of_tasks_are_frozen_only_when_the_manifests_are():
    """Otherwise a task that runs again could write elsewhere, and save a manifest that counts."""
    rounds = rounds_of(MemoryStore(), FILES)
    assert _round_of(rounds, "/manifests") < _round_of(rounds, "/tasks")
    assert _round_of(rounds, "/tasks") < _round_of(rounds, "/frozen")


def _round_of(rounds: list[list[StoreCall]], name: str) -> int:
    """The first round with a request for a name that contains `name`."""
    return next(n for n, calls in enumerate(rounds, 1) if any(name in call.paths[0] for call in calls))


def test_manifests_that_the_driver_does_not_know_take_three_more():
    """The files of tasks are frozen only after the manifests are."""
    assert len(rounds_of(MemoryStore(), FILES, has_results=False)) == 11 + 3


def test_a_small_commit_on_an_object_store_makes_few_requests_in_a_row():
    assert len(rounds_of(flat_store(), FILES)) <= 17


def test_the_requests_of_many_tasks_are_made_together():
    """Besides a listing, a rename and a deletion per task."""
    width, tasks = 128, 2_000
    found = rounds_of(MemoryStore(), ("a",), tasks, threads=width)
    assert len(found) - sum(map(len, found)) / width <= 14


def test_a_commit_that_cleans_up_later_returns_before_the_last_three():
    """Its clean-up may just have begun."""
    before = running_threads()
    assert len(rounds_of(MemoryStore(), FILES, cleanup="later")) <= 11 - 3 + 1
    for thread in running_threads() - before:
        thread.join()
