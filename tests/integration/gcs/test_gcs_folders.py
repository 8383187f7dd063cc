"""Buckets with a hierarchical namespace, against canned answers written from the API's reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.promises.lines import Verdict
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.gcs.store import GcsStore
from ray_committer.testing import run_abort, run_commit, visible_files
from tests.integration.gcs.jobs import write_hadoop_job
from tests.integration.store_jobs import all_of, tasks_of, write_job
from tests.servers.gcs import GcsServer
from tests.servers.gcs_folders import Folders

pytestmark = pytest.mark.xdist_group("gcs")


@pytest.fixture
def folders(server: GcsServer, bucket: str) -> Iterator[set[str]]:
    """The folders of the bucket, which is hierarchical from here on."""
    flat, answerer = server.proxy.answerer, Folders()
    server.proxy.answerer = answerer
    yield answerer.folders
    server.proxy.answerer = flat


@pytest.fixture
def store(server: GcsServer, bucket: str, folders: set[str]) -> GcsStore:
    return GcsStore(StoreSpec("gs", bucket, server.storage_options))


def test_it_has_directories(store: GcsStore):
    assert store.capabilities.has_directories


def test_a_directory_is_a_folder_with_those_above_it_and_no_object(store: GcsStore, folders: set[str]):
    for _ in range(2):
        store.mkdirs("/a/b c/ü")
    assert folders == {"a/", "a/b c/", "a/b c/ü/"}
    assert store.list_files("/") == []
    status = store.get_status("/a/b c")
    assert status is not None
    assert status.is_directory
    assert [one.path for one in store.list_status("/a")] == ["/a/b c"]
    assert store.list_status("/a/b c/ü") == []
    assert store.get_status("/b") is None
    with pytest.raises(FileNotFoundError):
        store.list_status("/b")


def test_a_directory_is_deleted_with_all_folders_in_it(store: GcsStore, folders: set[str]):
    for name in ("/d/a", "/d/e/f/b", "/d/g/c", "/dd/a"):
        store.write(name, b"1")
    store.mkdirs("/d/empty/x")
    assert store.delete_directory("/d")
    assert not store.delete_directory("/d")
    assert folders == {"dd/"}
    assert [one.path for one in store.list_files("/")] == ["/dd/a"]


def test_only_an_empty_folder_is_removed(store: GcsStore, folders: set[str]):
    store.mkdirs("/d/e")
    store.write("/f/a", b"1")
    assert not store.remove_empty_directory("/d")
    assert not store.remove_empty_directory("/f")
    assert store.remove_empty_directory("/d/e")
    assert store.remove_empty_directory("/d")
    assert not store.remove_empty_directory("/d")
    assert folders == {"f/"}


@pytest.mark.parametrize("write", [write_job, write_hadoop_job])
def test_a_job_is_committed_and_its_folders_are_gone(
    store: GcsStore, folders: set[str], job: JobAttempt, write
):
    tasks = tasks_of(30)
    write(store, job, tasks)
    report = run_commit(store, job)
    assert (report.outcome, report.moved, report.directories) == (Outcome.COMMITTED, 30, 7)
    assert visible_files(store, job.destination) == all_of(tasks)
    above = {"warehouse/", "warehouse/table/"}
    assert folders == above | {f"warehouse/table/p=%3A{number}/" for number in range(7)}


def test_an_aborted_job_leaves_no_folder(store: GcsStore, folders: set[str], job: JobAttempt):
    store.mkdirs(job.destination)
    write_job(store, job, tasks_of(8))
    assert run_abort(store, job)
    assert folders == {"warehouse/", "warehouse/table/"}


def test_the_doctor_takes_a_bucket_with_folders(server: GcsServer, bucket: str, folders: set[str]):
    """There a move makes the folders above, which no other store with directories does."""
    diagnosis = ray_committer.doctor(
        f"gs://{bucket}/table", executor="threads", storage_options=server.storage_options
    )
    assert not diagnosis.failed
    (note,) = [line for line in diagnosis.lines if "creates the directories" in line.measured]
    assert note.verdict is Verdict.NOTE
