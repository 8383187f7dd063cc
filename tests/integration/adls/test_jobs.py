"""Whole jobs on an account: faults of the server, throttling, crashes, Hadoop's manifests, Ray."""

from __future__ import annotations

import os
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import ManifestError, StoreUnavailableError
from ray_committer.promises.lines import Verdict
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.recovery import Proof
from ray_committer.stores.adls.open import open_adls
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.hdfs.protocol import UMASK
from ray_committer.stores.registry import resolve_destination
from ray_committer.testing import (
    visible_files,
    write_job,
)
from ray_committer.testing.harness import all_files, put_file
from tests.integration.adls.conftest import CONTAINER, opened
from tests.integration.adls.jobs import all_of, files_of, write_as_hadoop
from tests.servers.dfs import DfsServer
from tests.servers.faults import Fault, Faults

pytestmark = [pytest.mark.xdist_group("adls"), pytest.mark.timeout(120)]

RENAMES = int(os.environ.get("RAY_COMMITTER_TEST_RENAMES", "240"))
CAP = 100
CAPPED_FILES = 500
OWN_RENAMES = 6
"""Declared, recorded, committed; the manifests to freeze them, ``_SUCCESS``, the directory to be
deleted.
"""


@pytest.fixture
def store(url: str, options: dict[str, Any]) -> StoreOperations:
    return opened(url, options)


@pytest.fixture
def job(url: str, options: dict[str, Any]) -> JobAttempt:
    return new_job_attempt(resolve_destination(url, options)[1], "job_1", 0)


def test_files_arrive_once_each_though_requests_and_answers_are_lost(
    dfs: DfsServer,
    store: StoreOperations,
    job: JobAttempt,
    url: str,
    options: dict[str, Any],
):
    tasks = files_of(4, RENAMES)
    write_job(store, job, tasks)
    dfs.faults = Faults(failed_before=0.065, failed_after=0.03, lost_answer=0.035)
    report = ray_committer.commit_job(
        url,
        "job_1",
        executor="threads",
        options=CommitOptions(threads=16),
        storage_options=options,
    )
    injected, dfs.faults = dict(dfs.faults.injected), Faults()
    print(f"{RENAMES} files, {injected}, moved {report.moved}, proved {report.proved}")
    done = injected[Fault.FAILED_AFTER] + injected[Fault.LOST_ANSWER]
    assert report.outcome is Outcome.COMMITTED
    assert report.moved + sum(report.proved.values()) == RENAMES
    assert set(report.proved) == {Proof.ETAG}
    assert done - OWN_RENAMES <= report.proved[Proof.ETAG] <= done
    assert report.proved[Proof.ETAG] >= 0.03 * RENAMES
    assert visible_files(store, job.destination) == all_of(tasks)
    assert store.get_status(job.temporary) is None


def test_a_commit_loses_nothing_on_an_account_that_throttles(
    dfs: DfsServer, store: StoreOperations, job: JobAttempt, url: str, options: dict[str, Any]
):
    tasks = files_of(4, CAPPED_FILES)
    write_job(store, job, tasks)
    dfs.faults = Faults(requests_per_second=CAP, burst=CAP, retry_after_seconds=None)
    report = ray_committer.commit_job(
        url,
        "job_1",
        executor="threads",
        options=CommitOptions(threads=16),
        storage_options=options,
    )
    injected, dfs.faults = dict(dfs.faults.injected), Faults()
    print(injected, report.findings)
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, CAPPED_FILES)
    assert injected[Fault.THROTTLED] > 0
    assert visible_files(store, job.destination) == all_of(tasks)


NAMES = {"p=a%3A0 b/part 1": b"1", "p=%25/100%": b"2", "p=ü/a+b&c;d#e?f": b"3", "p=a%2Fb/%": b"4"}


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.parametrize("is_plain", [True, False], ids=["fsspec's URL", "Hadoop's URL"])
def test_what_hadoop_wrote_is_committed_under_either_url(
    dfs: DfsServer,
    store: StoreOperations,
    job: JobAttempt,
    url: str,
    options: dict[str, Any],
    *,
    scheme: str,
    etags: bool,
    is_plain: bool,
):
    tasks = {**files_of(2, 20), 2: NAMES}
    write_as_hadoop(store, job, tasks, etags=etags, scheme=scheme)
    dfs.calls.clear()
    if is_plain:
        url = f"abfs://{CONTAINER}{job.destination}"
    report = ray_committer.commit_job(url, executor="threads", storage_options=options)
    assert (report.outcome, report.moved) == (Outcome.COMMITTED, 20 + len(NAMES))
    assert visible_files(store, job.destination) == all_of(tasks)
    assert dfs.calls["rename"] == 20 + len(NAMES) + OWN_RENAMES + 1  # the state of a job that had none
    # _SUCCESS; no file of the job is looked at, and one page shows that all its directories are new.
    assert dfs.calls["status"] == 1


def test_a_large_attempt_directory_is_deleted_by_a_request_a_page(
    dfs: DfsServer, store: StoreOperations
):
    write_job(store, new_job_attempt("/t", "j", 0), {0: {f"f-{n}": b"" for n in range(30)}})
    dfs.containers[CONTAINER].delete_page = 10
    dfs.calls.clear()
    assert store.delete_directory("/t")
    assert dfs.calls["delete"] == 5  # 41 paths
    assert store.get_status("/t") is None


def test_a_directory_that_the_store_moves_in_several_steps_stays(dfs: DfsServer, store: StoreOperations):
    put_file(store, "/t/d/a", b"1")
    put_file(store, "/t/d/b", b"2")
    dfs.containers[CONTAINER].rename_page = 1
    with pytest.raises(OSError, match="in several steps") as caught:
        store.move_whole("/t/d", "/t/p")
    assert (caught.value.filename, caught.value.filename2) == ("/t/d", "/t/p")
    assert visible_files(store, "/t") == {"d/a": b"1", "d/b": b"2"}


@pytest.mark.parametrize("fault", [Fault.FAILED_AFTER, Fault.LOST_ANSWER])
def test_a_directory_whose_answer_is_lost_is_moved_whole(
    dfs: DfsServer, store: StoreOperations, fault: Fault
):
    put_file(store, "/t/d/e/a", b"1")
    dfs.faults = Faults(**{fault.name.lower(): 1.0})
    with pytest.raises(StoreUnavailableError):
        store.move_whole("/t/d", "/t/p")
    dfs.faults = Faults()
    assert visible_files(store, "/t") == {"p/e/a": b"1"}


def test_an_account_that_changes_etags_with_a_directory_is_found_by_the_doctor(
    dfs: DfsServer, url: str, options: dict[str, Any]
):
    opened(url, options)
    dfs.containers[CONTAINER].keeps_etags = False
    lines = ray_committer.doctor(url, storage_options=options).lines
    failed = {line.name: line.advice for line in lines if line.verdict is Verdict.FAILED}
    assert failed.keys() == {"move a directory", "move a directory whole"}
    assert all(advice.startswith("do not commit to this store") for advice in failed.values())


def test_a_commit_names_an_account_that_changes_etags_with_a_directory_and_leaves_all_files(
    dfs: DfsServer, store: StoreOperations, job: JobAttempt, url: str, options: dict[str, Any]
):
    write_job(store, job, files_of(3, 30))
    dfs.containers[CONTAINER].keeps_etags = False
    with pytest.raises(ManifestError, match="all 30 files have their sizes and other etags") as caught:
        ray_committer.commit_job(url, "job_1", storage_options=options)
    assert "no job can be committed there; run ray-committer doctor" in str(caught.value)
    assert len(all_files(store, job.directory)) >= 30
    assert visible_files(store, job.destination) == {}


@pytest.mark.parametrize(
    ("more", "mode"), [({}, "rwxr-xr-x"), ({UMASK: "027"}, "rwxr-x---"), ({UMASK: "077"}, "rwx------")]
)
def test_a_new_directory_has_the_rights_that_were_foretold(
    dfs: DfsServer, url: str, options: dict[str, Any], more: dict[str, str], mode: str
):
    """Without the option they are those of a directory that Hadoop's client makes."""
    store = opened(url, options | more)
    store.mkdirs("/t/above")
    above = dfs.containers[CONTAINER].get("t/above")
    above.owner, above.group, above.permissions = "alice", "staff", "rwxrwxr-x"
    for name in ("a", "b"):
        store.write(f"/t/{name}", b"1")
    store.delete_file("/t/b")
    foretold = store.rights_below("/t/above")
    store.mkdirs("/t/above/p=1")
    store.mkdirs("/t/above/p=1/q=2")
    assert foretold == f"$superuser:staff:{mode}"
    assert [one.rights for one in store.list_status("/t/above")] == [foretold]
    assert [one.rights for one in store.list_status("/t/above/p=1")] == [foretold]
    assert {one.name: one.rights for one in store.list_status("/t")} == {
        "a": None,
        "above": "alice:staff:rwxrwxr-x",
    }
    assert store.rights_below("/t/missing") is None


def test_who_has_written_nothing_foretells_no_rights(dfs: DfsServer, url: str, options: dict[str, Any]):
    spec = resolve_destination(url, options)[0]
    store = open_adls(spec)
    store.mkdirs("/t")
    assert store.rights_below("/t") is None


def test_rights_with_an_access_list_are_not_foretold(dfs: DfsServer, store: StoreOperations):
    store.write("/t", b"1")
    store.mkdirs("/d/above")
    assert store.rights_below("/d/above") is not None
    dfs.containers[CONTAINER].get("d/above").default_list = ",default:user:bob:r-x"
    store.mkdirs("/d/above/p=1")
    assert store.rights_below("/d/above") is None
    assert [one.rights for one in store.list_status("/d/above")] == [None]


def test_a_listing_of_several_pages_is_complete(store: StoreOperations, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ray_committer.stores.adls.store.PAGE_PATHS", 7)
    names = {f"d{n % 3}/f-{n}": b"" for n in range(40)}
    for name, data in names.items():
        store.mkdirs(f"/t/{name.partition('/')[0]}")
        store.write(f"/t/{name}", data)
    assert sorted(one.path for one in store.list_files("/t")) == sorted(f"/t/{name}" for name in names)
    assert len(store.list_status("/t/d0")) == 14
