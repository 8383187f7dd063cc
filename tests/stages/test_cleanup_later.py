"""A commit with `cleanup="later"` returns first, and then removes the directory of its job."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitRecordExistsError, shown
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_abort,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, set_up_attempt, write_attempt
from tests.opening import opening
from tests.stages.support import JOB, KINDS_OF_TABLES, OTHER_JOB, each_of, phase_of

store = each_of()
LATER = CommitOptions(cleanup="later")
FILES = {0: {"a": b"1"}}
CLEANS = ("move_directory", "delete_listed")
"""The first request of a clean-up that changes something, on each store."""


def cleaning() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ray-committer-cleanup"]


@contextmanager
def held(store: MemoryStore, options: CommitOptions = LATER) -> Iterator[CommitResult]:
    """Commit a job whose clean-up begins only after the block, and ends with it."""
    begin = threading.Event()

    def wait(call: StoreCall) -> None:
        if threading.current_thread() in cleaning() and call.operation in CLEANS:
            assert begin.wait(60)

    try:
        yield run_commit(WrappedStore(store, before=wait), JOB, options)
    finally:
        begin.set()
        for thread in cleaning():
            thread.join()


def test_it_returns_before_the_directory_is_removed(store: MemoryStore):
    write_job(store, JOB, FILES)
    with held(store) as result:
        assert result.outcome is Outcome.COMMITTED
        assert visible_files(store, "/table") == {"a": b"1"}
        assert store.get_status(JOB.success) is not None
        assert phase_of(store) is Phase.COMMITTED
    assert store.get_status(JOB.temporary) is None


def test_a_commit_that_finds_the_job_committed_finishes_its_clean_up(store: MemoryStore):
    write_job(store, JOB, FILES)
    with held(store):
        again = run_commit(store, JOB)
        assert again.outcome is Outcome.COMMITTED
        assert store.get_status(JOB.temporary) is None
    assert visible_files(store, "/table") == {"a": b"1"}


def an_append(store: MemoryStore) -> dict[str, bytes]:
    write_job(store, OTHER_JOB, {0: {"b": b"2"}})
    assert run_commit(store, OTHER_JOB).outcome is Outcome.COMMITTED
    return {"a": b"1", "b": b"2"}


def an_overwrite(store: MemoryStore) -> dict[str, bytes]:
    write_job(store, OTHER_JOB, {0: {"b": b"2"}}, mode=ConflictMode.OVERWRITE)
    options = CommitOptions(mode=ConflictMode.OVERWRITE)
    assert run_commit(store, OTHER_JOB, options).outcome is Outcome.COMMITTED
    return {"b": b"2"}


def an_abort(store: MemoryStore) -> dict[str, bytes]:
    with pytest.raises(CommitRecordExistsError):
        run_abort(store, JOB)
    return {"a": b"1"}


def a_vacuum(store: MemoryStore) -> dict[str, bytes]:
    with opening(store):
        (kept,) = ray_committer.vacuum_jobs("s3://bucket/table")
    assert (kept.removed, "ray-committer commit" in (kept.command or "")) == (False, True)
    return {"a": b"1"}


@pytest.mark.parametrize("meanwhile", [an_append, an_overwrite, an_abort, a_vacuum])
def test_others_find_a_job_that_is_committed(
    store: MemoryStore, meanwhile: Callable[[MemoryStore], dict[str, bytes]]
):
    write_job(store, JOB, FILES)
    with held(store):
        expected = meanwhile(store)
    assert visible_files(store, "/table") == expected
    assert store.get_status(JOB.temporary) is None


def test_a_failure_is_logged_and_a_later_run_finishes(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    write_job(store, JOB, FILES)

    def fail(call: StoreCall) -> None:
        if threading.current_thread() in cleaning():
            raise PermissionError(13, "denied", call.paths[0])

    with caplog.at_level(logging.WARNING):
        result = run_commit(WrappedStore(store, before=fail), JOB, LATER)
        for thread in cleaning():
            thread.join()
    assert result.outcome is Outcome.COMMITTED
    assert "the job is committed but was not cleaned up" in caplog.text
    assert "memory://" in caplog.text
    assert shown(caplog.text) == caplog.text
    assert run_commit(store, JOB).outcome is Outcome.COMMITTED
    assert store.get_status(JOB.temporary) is None


# Two commits in a row by one driver


def committed_by_api(store: MemoryStore, name: str, options: CommitOptions) -> CommitResult:
    """Set a job up, write a file and commit, as a driver does."""
    job = new_job_attempt("/table", str(uuid4()), 0)
    ray_committer.setup_job("s3://bucket/table", job.job_id, options=options)
    attempt = set_up_attempt(store, job, 0, 0)
    write_attempt(store, job, attempt, {name: name.encode()})
    results = [commit_attempt(store, job, 0, attempt, files=[name])]
    return ray_committer.commit_job(
        "s3://bucket/table", job.job_id, committed=results, executor="threads", options=options
    )


class HeldAt:
    """Hold the clean-up of the first job before its request of this number, until it is let `go`."""

    def __init__(self, number: int) -> None:
        self.number, self.calls = number, 0
        self.reached, self.go = threading.Event(), threading.Event()
        self.first: threading.Thread | None = None

    def __call__(self, call: StoreCall) -> None:
        current = threading.current_thread()
        if current.name != "ray-committer-cleanup":
            return
        self.first = self.first or current
        if current is self.first:
            self.calls += 1
            if self.calls == self.number:
                self.reached.set()
                assert self.go.wait(60)


OF_THE_SECOND = {
    ConflictMode.APPEND: {"p=1/a": b"p=1/a", "p=1/b": b"p=1/b"},
    ConflictMode.OVERWRITE: {"p=1/b": b"p=1/b"},
    ConflictMode.OVERWRITE_PARTITIONS: {"p=1/b": b"p=1/b"},
}


@pytest.mark.parametrize("kind", KINDS_OF_TABLES)
@pytest.mark.parametrize("mode", OF_THE_SECOND)
def test_the_next_commit_of_the_driver_neither_waits_nor_is_refused_wherever_the_first_cleans_up(
    kind: str, mode: ConflictMode
):
    options = CommitOptions(cleanup="later", conflict_wait_seconds=0.0)

    def first(hold: HeldAt) -> MemoryStore:
        store = KINDS_OF_TABLES[kind]()
        with opening(store, before=hold):
            committed_by_api(store, "p=1/a", options)
        return store

    free = HeldAt(0)
    first(free)
    end(cleaning())
    assert free.calls >= 2
    for number in range(1, free.calls + 1):
        hold = HeldAt(number)
        store, held = first(hold), cleaning()
        assert hold.reached.wait(60)
        with opening(store):
            second = committed_by_api(store, "p=1/b", replace(options, mode=mode))
        assert second.outcome is Outcome.COMMITTED
        end(thread for thread in cleaning() if thread not in held)  # nor does its clean-up wait
        assert [thread.is_alive() for thread in held] == [True]
        hold.go.set()
        end(held)
        assert visible_files(store, "/table") == OF_THE_SECOND[mode]
        assert store.get_status(JOB.temporary) is None


def end(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


PROGRAM = """
import threading, sys
from uuid import uuid4
import ray_committer
from ray_committer import CommitOptions
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import write_job
from ray_committer.protocol.paths import new_job_attempt
from tests.opening import opening

def wait(call):
    if threading.current_thread().name == "ray-committer-cleanup":
        threading.main_thread().join()  # which ends once the interpreter has begun to end

destination = sys.argv[1]
with opening(before=wait):
    for name in ("a", "b"):
        job = new_job_attempt(destination, str(uuid4()), 0)
        write_job(LocalStore(StoreSpec("file")), job, {0: {name: b"1"}})
        ray_committer.commit_job(destination, job.job_id, options=CommitOptions(cleanup="later"))
"""


def test_an_interpreter_ends_after_the_clean_ups_of_its_commits(tmp_path: Path):
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)], check=True, timeout=60)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "_SUCCESS"}
