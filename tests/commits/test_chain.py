"""How many requests a commit makes in a row: at 20 ms each they are the time of a small commit.

Counted by a clock that moves only while all threads wait (`tests/rounds.py`), so no machine is too slow.
"""

from __future__ import annotations

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import Identity, MemoryStore, StoreCall
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from tests.opening import opening
from tests.rounds import Rounds, shown
from tests.threads import running_threads

FILES = ("a", "b")
IN_PARTITIONS = ("p=1/a", "p=2/b")


def rounds_of(
    store: StoreOperations, files: tuple[str, ...], tasks: int = 1, **options
) -> list[list[StoreCall]]:
    """The rounds of the commit of a job with these files per task, by the process that set it up."""
    rounds, job = Rounds(store), new_job_attempt("/table", "job_1", 0)
    written = {task: {f"{name}-{task}": b"x" for name in files} for task in range(tasks)}
    known = CommitOptions(expected_tasks=tasks, **options)

    def commit() -> None:
        report = ray_committer.commit_job("/table", "job_1", executor="threads", options=known)
        assert report.moved == tasks * len(files)

    with opening(rounds.store):
        ray_committer.setup_job("/table", "job_1", options=known)
        for task, named in written.items():
            attempt = set_up_attempt(rounds.store, job, task, 0)
            write_attempt(rounds.store, job, attempt, named)
            commit_attempt(rounds.store, job, task, attempt)
        found = rounds.of(commit)
    print(shown(found))
    return found


def flat_store() -> MemoryStore:
    return MemoryStore(real_directories=False, identity=Identity.GENERATION, listing_is_cheap=False)


@pytest.mark.parametrize(
    ("files", "mode", "most"),
    [
        (FILES, ConflictMode.APPEND, 13),
        (IN_PARTITIONS, ConflictMode.APPEND, 14),
        (IN_PARTITIONS, ConflictMode.OVERWRITE_PARTITIONS, 17),
    ],
)
def test_a_small_commit_makes_few_requests_in_a_row(
    files: tuple[str, ...], mode: ConflictMode, most: int
):
    assert len(rounds_of(MemoryStore(), files, mode=mode)) <= most


def test_a_small_commit_on_an_object_store_makes_few_requests_in_a_row():
    assert len(rounds_of(flat_store(), FILES)) <= 19


def test_the_requests_of_many_tasks_are_made_together():
    """Besides a read, a listing, a rename and a deletion per task."""
    width, tasks = 128, 2_000
    found = rounds_of(MemoryStore(), ("a",), tasks, threads=width)
    assert len(found) - sum(map(len, found)) / width <= 16


def test_a_commit_that_cleans_up_later_returns_before_the_last_four():
    """Its clean-up may just have begun."""
    before = running_threads()
    assert len(rounds_of(MemoryStore(), FILES, cleanup="later")) <= 10
    for thread in running_threads() - before:
        thread.join()
