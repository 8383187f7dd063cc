"""A commit with `cleanup="later"` returns first, and then removes the directory of its job."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitRecordExistsError, shown
from ray_committer.protocol.commit_result import CommitResult, Outcome
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
from tests.opening import opening
from tests.stages.support import JOB, OTHER_JOB, each_of, phase_of

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


PROGRAM = """
import ray_committer, sys
from ray_committer import CommitOptions
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import write_job
from ray_committer.protocol.paths import new_job_attempt
destination = sys.argv[1]
write_job(LocalStore(StoreSpec("file")), new_job_attempt(destination, "job_1", 0), {0: {"a": b"1"}})
ray_committer.commit_job(destination, "job_1", options=CommitOptions(cleanup="later"))
"""


def test_a_process_ends_after_its_clean_up(tmp_path: Path):
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)], check=True, timeout=60)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "_SUCCESS"}
