"""Directories are made though workers are lost, and what is in the way has a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.create_output_directories import ROUNDS
from ray_committer.stages.worker import Worker
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    write_job,
)

JOB = new_job_attempt("/table", "job_1", 0)


class Losing(InlineExecutor):
    """Its workers claim directories and are lost, as often as told."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        super().__init__(lambda: Worker(store, JOB, in_driver=True))
        self.times = times

    def run_on_workers(self, work: Any, items: Iterable[Any]) -> Iterator[Any]:
        if self.times == 0:
            return super().run_on_workers(work, items)
        self.times -= 1
        self.directories.claim(1)
        return iter(())


@pytest.fixture
def memory() -> MemoryStore:
    store = MemoryStore()
    write_job(store, JOB, {0: {f"p={number}/a": b"x" for number in range(7)}})
    return store


@pytest.mark.parametrize("times", [0, 1, ROUNDS - 1])
def test_what_lost_workers_had_claimed_is_made(memory: MemoryStore, times: int):
    report = run_commit(memory, JOB, executor=Losing(memory, times))
    assert (report.directories, report.moved) == (7, 7)


def test_workers_that_are_lost_again_and_again_stop_the_commit(memory: MemoryStore):
    with pytest.raises(CommitStateUnknownError, match="7 directories could not be made"):
        run_commit(memory, JOB, executor=Losing(memory, ROUNDS))
    assert run_commit(memory, JOB).moved == 7


@pytest.mark.parametrize("may_delete", [False, True])
def test_what_was_in_the_way_and_has_gone_is_deleted_by_nobody(memory: MemoryStore, may_delete: bool):
    deleted: list[StoreCall] = []

    def refuse(call: StoreCall) -> None:
        if call.operation == "mkdirs":
            raise FileExistsError(17, "File exists", call.paths[0])
        if call.operation == "delete_file":
            deleted.append(call)

    options = CommitOptions(delete_blocking_files=may_delete)
    with pytest.raises(CommitConflictError, match=r"/table/p=0: is a file where"):
        run_commit(WrappedStore(memory, before=refuse), JOB, options)
    assert deleted == []


def test_a_file_where_a_directory_must_go_is_refused_by_name(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/q=2/a": "x"}})
    (dest / "p=1").write_text("in the way")
    with pytest.raises(CommitConflictError, match="p=1: is a file where the job needs a directory"):
        run_commit(store, job)
    assert (dest / "p=1").read_text() == "in the way"
    (dest / "p=1").unlink()
    ray_committer.commit_job(str(dest))
    assert tree() == {"p=1/q=2/a": "x"}


def test_a_blocking_file_is_deleted_only_when_that_is_allowed(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/q=2/a": "x"}})
    (dest / "p=1").write_text("in the way")
    run_commit(store, job, CommitOptions(delete_blocking_files=True))
    assert tree() == {"p=1/q=2/a": "x"}
