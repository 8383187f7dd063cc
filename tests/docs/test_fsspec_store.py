"""The example of an own store: what it keeps, what it warns of, and that it is installed as printed."""

from __future__ import annotations

import importlib
import time
import tomllib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, StoreRefusedError
from ray_committer.promises.lines import Verdict
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store, resolve_destination
from ray_committer.testing import StoreContract, run_commit, visible_files, write_job
from ray_committer.testing.harness import put_file
from tests.docs import ways
from tests.docs.blocks import all_blocks
from tests.own_stores import OPENS_FSSPEC_STORE


@pytest.fixture(autouse=True)
def installed(fsspec_stores: Path) -> Iterator[None]:
    """The example as a package; nothing is left in fsspec's memory."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def opened(url: str, **options: object) -> StoreOperations:
    return open_store(resolve_destination(url, options)[0])


class TestMemory(StoreContract):
    """fsspec's own memory, which copies and deletes."""

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"

    @pytest.fixture
    def store(self) -> StoreOperations:
        return opened(f"memory://{uuid.uuid4()}/")


class TestDirectory(StoreContract):
    """A wrapper around local files, whose renames are its own."""

    refused_names = frozenset()

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"

    @pytest.fixture
    def store(self, tmp_path: Path) -> StoreOperations:
        return opened("dir:///", path=str(tmp_path), target_protocol="file")


@pytest.fixture
def store() -> StoreOperations:
    return opened("memory://here/")


def test_it_is_installed_as_printed():
    project = tomllib.loads(all_blocks()[ways.FSSPEC_STORE].text)["project"]
    assert [*project["entry-points"]["ray_committer.stores"].values()] == [OPENS_FSSPEC_STORE]


class Particular(MemoryFileSystem):
    """Refuses options that it does not know, and remembers listings until it is told to forget them."""

    protocol = "particular"

    def __init__(self, *, token: str, **internal: object) -> None:
        if internal:
            raise TypeError(f"unknown options {internal}")
        super().__init__()
        self._listed: dict[str, list[dict[str, object]]] = {}

    def ls(self, path, detail=True, **kwargs):
        if path not in self._listed:
            self._listed[path] = super().ls(path, detail=True)
        return self._listed[path]

    def invalidate_cache(self, path=None):
        self._listed.clear()


def particular(authority: str, **options: object) -> StoreOperations:
    register_implementation("particular", Particular, clobber=True)
    example = importlib.import_module("fsspec_store")
    return example.open_fsspec_store(StoreSpec("particular", authority, options))


def test_fsspec_gets_the_options_and_what_it_cannot_open_is_one_line_without_the_password():
    particular("here", token="x")
    with pytest.raises(StoreRefusedError, match=r"^particular://me@here/: fsspec cannot open it on .*y"):
        particular("me:secret@here", token="x", other="y")


def test_what_fsspec_remembers_of_a_listing_is_not_believed():
    store = particular("here", token="x")
    for name in ("a", "b"):
        put_file(store, f"/d/{name}", b"x")
        assert name in [one.name for one in store.list_status("/d")]


def test_of_many_renames_in_this_process_one_wins_however_slow_the_look(monkeypatch, store):
    def slowly(self, path, **kwargs):
        found = path in self.store
        time.sleep(0.02)
        return found

    monkeypatch.setattr(MemoryFileSystem, "exists", slowly)
    for number in range(6):
        put_file(store, f"/d/{number}", b"x")

    def rename(number: int) -> bool:
        try:
            store.rename(f"/d/{number}", "/d/dest")
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(rename, range(6))) == 1


def test_its_risk_is_said_in_every_report(store: StoreOperations):
    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: {"p=1/a": b"x"}})
    notices = run_commit(store, job).notices
    assert any("neither atomic nor conditional" in notice for notice in notices)


def test_its_risk_is_a_warning_of_the_doctor():
    diagnosis = ray_committer.doctor("memory://me:secret@here/table", executor="threads")
    (line,) = [one for one in diagnosis.lines if one.name == "store"]
    assert line.verdict is Verdict.WARNING
    assert line.measured.startswith("memory://me@here/: is used at its owner's risk")
    assert not diagnosis.failed


def test_a_copy_is_called_a_copy(store: StoreOperations, tmp_path: Path):
    own = opened("dir:///", path=str(tmp_path), target_protocol="file")
    assert "renames copy and delete each file" in str(store.capabilities.risk)
    assert "renames are the store's own" in str(own.capabilities.risk)


def test_a_commit_by_url_works_and_says_what_it_risks(store: StoreOperations):
    job = ray_committer.setup_job("memory://here/table")
    with ray_committer.task_attempt("memory://here/table", job, 0) as attempt:
        store.write(resolve_destination(attempt.path("p=1/a"))[1], b"x")
    report = ray_committer.commit_job("memory://here/table", job, executor="threads")
    assert report.outcome is Outcome.COMMITTED
    assert any("not known to be safe" in notice for notice in report.notices)
    assert visible_files(store, "/table") == {"p=1/a": b"x"}


def test_a_file_at_both_places_stops_the_commit_and_nothing_is_deleted(store: StoreOperations):
    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: {"a": b"whole"}})
    put_file(store, "/table/a", b"wh")  # what a copy that was interrupted leaves
    with pytest.raises(CommitConflictError, match="is there already"):
        run_commit(store, job)
    assert [one.size for one in store.list_files(job.tasks)] == [5]
    store.delete_file("/table/a")
    assert run_commit(store, job).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == {"a": b"whole"}


def test_a_file_system_without_empty_directories_is_found_before_a_job_is_set_up(monkeypatch, store):
    monkeypatch.setattr(MemoryFileSystem, "makedirs", lambda *args, **kwargs: None)
    with pytest.raises(OSError, match="keeps no empty directories"):
        store.mkdirs("/table/_temporary")


def test_what_is_no_os_error_becomes_one(monkeypatch, store):
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("protocol error")

    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: {"a": b"x"}})
    monkeypatch.setattr(MemoryFileSystem, "cat_file", fail)
    with pytest.raises(OSError, match="RuntimeError: protocol error") as caught:
        store.read("/a")
    assert caught.value.filename == "/a"
    with pytest.raises((CommitStateUnknownError, ray_committer.errors.CommitAbortedError)):
        run_commit(store, job)
