"""Old files that cannot be removed are found before anything is changed, and all of them are named."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import SHOWN, CommitStateUnknownError, PreflightError
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, run_commit, visible_files, write_job
from ray_committer.testing.harness import put_file
from tests.opening import dying
from tests.stages.support import JOB, calls_of, phase_of

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")


class AskedStore(MemoryStore):
    """Shows that the files in some directories cannot go, as the kernel or a NameNode does."""

    def __init__(self, closed: dict[str, str]) -> None:
        super().__init__()
        self.closed = closed

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        assert home == JOB.directory
        paths = (directory, *files)
        return {path: self.closed[path] for path in paths if path in self.closed}


def asked(
    closed: dict[str, str],
    names: Sequence[str] = ("p=1/a", "p=1/b", "p=2/c", "d"),
    mode: ConflictMode = ConflictMode.OVERWRITE,
) -> AskedStore:
    store = AskedStore(closed)
    for name in names:
        put_file(store, f"/table/{name}", name.encode())
    write_job(store, JOB, {0: {"p=1/new": b"n"}}, mode=mode)
    return store


def test_old_files_that_cannot_be_removed_are_all_named_and_nothing_is_changed():
    store = asked({"/table/p=1": "this user may not", "/table/d": "is immutable"})
    before = visible_files(store, "/table")
    with pytest.raises(PreflightError) as caught:
        run_commit(store, JOB, OVERWRITE)
    assert caught.value.what == (
        "memory://test/table/d: is immutable | memory://test/table/p=1: this user may not: in all, 3 "
        "old files could not be removed, so their rows would stay beside those of the job"
    )
    assert "nothing was changed" in caught.value.advice
    assert phase_of(store).value == "open"
    assert visible_files(store, "/table") == before
    store.closed.clear()
    run_commit(store, JOB, OVERWRITE)
    assert visible_files(store, "/table") == {"p=1/new": b"n"}


def test_many_are_counted_and_some_are_named():
    names = [f"p={number}/a" for number in range(100)]
    store = asked({f"/table/{name}": "stays" for name in names}, names)
    with pytest.raises(PreflightError, match=r"and 80 more: in all, 100 old files") as caught:
        run_commit(store, JOB, OVERWRITE)
    assert caught.value.what.count("stays") == SHOWN


def test_it_takes_one_request_per_directory_of_old_files_and_none_for_an_append():
    asks = [
        call.paths[0]
        for mode in (ConflictMode.APPEND, ConflictMode.OVERWRITE)
        for call in calls_of(asked({}, mode=mode), partial(commit, mode=mode))
        if call.operation == "what_stays"
    ]
    assert sorted(asks) == ["/table", "/table/p=1", "/table/p=2"]


def commit(store: StoreOperations, mode: ConflictMode) -> None:
    run_commit(store, JOB, CommitOptions(mode=mode))


# On real files


@contextmanager
def closed_directory(path: Path) -> Iterator[str]:
    path.chmod(0o555)
    yield f"{path}: this user has no permission to remove files from it"


@contextmanager
def sticky_directory(path: Path) -> Iterator[str]:
    path.chmod(0o1777)
    yield f"{path / 'a'}: belongs to another user, in a directory with the sticky bit"


@contextmanager
def attribute(path: Path, letter: str) -> Iterator[str]:
    if subprocess.run(["chattr", f"+{letter}", path], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no such attributes")
    try:
        yield f"{path}: is immutable or append-only (chattr)"
    finally:
        subprocess.run(["chattr", f"-{letter}", path], check=True)


CLOSED: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "a directory of another user": closed_directory,
    "a sticky directory": sticky_directory,
    "an immutable file": lambda path: attribute(path / "a", "i"),
    "an append-only file": lambda path: attribute(path / "a", "a"),
    "an immutable directory": lambda path: attribute(path, "i"),
}


@pytest.fixture
def table() -> Iterator[Path]:
    """A table that anybody can write to, with a partition of root."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o777)
    for name in ("p=1", "p=2"):
        (root / name).mkdir()
        (root / name / "a").write_text("old")
        (root / name).chmod(0o777)
    yield root
    shutil.rmtree(root)


def written(table: Path, *names: str) -> str:
    job = ray_committer.setup_job(str(table))
    with ray_committer.task_attempt(str(table), job, task=0) as attempt:
        for name in names or ("p=3/new",):
            with attempt.open(name) as file:
                file.write(b"new")
    return job


@contextmanager
def nobody() -> Iterator[None]:
    """As an ordinary user, since root may write in every directory."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@needs_root
@pytest.mark.parametrize("what", CLOSED)
def test_what_the_kernel_will_refuse_is_found_before_the_record(table: Path, tmp_path: Path, what: str):
    ray_committer.commit_job(str(tmp_path), written(tmp_path), executor="inline")  # imports all
    with CLOSED[what](table / "p=1") as text, nobody():
        job = written(table)
        with pytest.raises(PreflightError) as caught:
            ray_committer.commit_job(str(table), job, executor="inline", options=OVERWRITE)
        assert caught.value.what.startswith(text)
        assert {path.name for path in table.iterdir()} == {"p=1", "p=2", "_temporary"}
        ray_committer.commit_job(str(table), job, executor="inline")  # an append needs no more
        assert (table / "p=3" / "new").exists()


@needs_root
def test_an_old_success_that_cannot_be_put_aside_is_found_before_the_record(table: Path):
    (table / "_SUCCESS").write_text("of an earlier job")
    with attribute(table / "_SUCCESS", "i") as text:
        job = written(table)
        with pytest.raises(PreflightError) as caught:
            ray_committer.commit_job(str(table), job)
        assert caught.value.what.startswith(text)
        assert not (table / "p=3").exists()


@needs_root
@pytest.mark.parametrize("gives_up", [False, True])
def test_what_becomes_immovable_after_the_record_is_named_at_the_end_and_the_rest_goes(
    table: Path, gives_up: bool
):
    (table / "p=1" / "b").write_text("old")
    job = written(table)
    ray_committer.record_job(str(table), job, options=OVERWRITE)
    with attribute(table / "p=1" / "a", "i"):
        with pytest.raises(CommitStateUnknownError, match="1 old files could not be removed") as caught:
            ray_committer.commit_job(str(table), job)
        assert caught.value.what.startswith(f"{table}/p=1/a: Operation not permitted: ")
        assert visible_files(LocalStore(StoreSpec("file")), str(table)).keys() == {"p=1/a", "p=3/new"}
    if gives_up:
        assert ray_committer.abort_job(str(table), job, undo=True)
        left = {"p=1/a", "p=1/b", "p=2/a"}
    else:
        ray_committer.commit_job(str(table), job)
        left = {"p=3/new"}
    assert visible_files(LocalStore(StoreSpec("file")), str(table)).keys() == left
    assert not (table / "_temporary").exists()


@needs_root
@pytest.mark.parametrize("dies", [False, True], ids=["at once", "taken over"])
def test_an_old_file_that_cannot_be_replaced_does_not_stop_the_removal_of_the_others(
    table: Path, *, dies: bool
):
    (table / "p=1" / "b").write_text("old")
    job = written(table, "p=3/new", "p=1/a")
    ray_committer.record_job(str(table), job, options=OVERWRITE)
    with attribute(table / "p=1" / "a", "i"):
        if dies:
            with dying(lambda call: call.operation == "replace"):
                ray_committer.commit_job(str(table), job, executor="inline")
        with pytest.raises(
            CommitStateUnknownError, match=r"p=1/a: Operation not permitted: 1 old files"
        ):
            ray_committer.commit_job(str(table), job, executor="inline")
        found = visible_files(LocalStore(StoreSpec("file")), str(table))
        assert found == {"p=1/a": b"old", "p=3/new": b"new"}
    ray_committer.commit_job(str(table), job)
    found = visible_files(LocalStore(StoreSpec("file")), str(table))
    assert found == {"p=1/a": b"new", "p=3/new": b"new"}
