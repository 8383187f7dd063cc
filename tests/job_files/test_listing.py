"""Which jobs are at a destination."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer.job_files.listing import find_documented_attempt, jobs_at, list_attempts
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.paths import (
    DOCUMENTED_PREFIX,
    JobAttempt,
    ancestors,
    join,
    new_job_attempt,
    parent,
)
from ray_committer.stores.base import FileStatus, StoredState
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from tests.stages.support import JOB, closed, requests, set_up


def test_attempt_directories_are_numbers_however_they_are_padded(write_job, dest: Path):
    job = write_job({0: {}})
    os.rename(job.directory, Path(job.job_directory) / "007")
    assert ray_committer.list_jobs(str(dest))[0].job_attempt == 7


def test_a_job_that_ends_while_jobs_are_listed_is_passed_over(store, write_job, dest: Path):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "y"}}, job_id="job_2")

    def end(call: StoreCall) -> None:
        if call.paths == (other.job_directory,):
            shutil.rmtree(other.job_directory, ignore_errors=True)

    found = jobs_at(WrappedStore(store, before=end), str(dest))
    assert [one.job.job_id for one in found] == ["job_1"]


def test_attempts_that_may_not_be_read_are_not_taken_for_none():
    store = set_up(JOB)
    with pytest.raises(PermissionError, match=JOB.job_directory):
        list_attempts(closed(store, JOB.job_directory), JOB)
    documented = join(JOB.temporary, DOCUMENTED_PREFIX + JOB.job_id)
    store.mkdirs(join(documented, "00"))
    with pytest.raises(PermissionError, match=documented):
        find_documented_attempt(closed(store, documented), JOB)


@pytest.mark.parametrize("jobs", [0, 1, 5])
def test_jobs_are_found_by_one_listing_and_one_per_job(jobs: int):
    wanted = [new_job_attempt("/table", f"job_{number}", number) for number in range(jobs)]
    store = set_up(*wanted)
    found = jobs_at(store, "/table")
    assert [one.job for one in found] == wanted
    cost = requests(store, lambda one: jobs_at(one, "/table"))
    assert cost == Counter(list_status=1 + jobs)


def test_the_directory_name_of_hadoops_documentation_is_known():
    documented = JobAttempt("/table", "job_1", 0, "/table/_temporary/manifest_job_1/0")
    assert find_documented_attempt(set_up(documented), JOB) == documented
    assert find_documented_attempt(set_up(JOB), JOB) is None


class ShowsWhatIsGone(MemoryStore):
    """A flat store on a server that keeps objects as files: it lists directories that are empty."""

    def __init__(self) -> None:
        super().__init__(identity=Identity.GENERATION, real_directories=False)
        self.ever: set[str] = set()

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self.ever.update(ancestors(path, "/"))

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        self.ever.update(ancestors(path, "/"))
        return super().advance(path, old, text)

    def list_status(self, path: str) -> list[FileStatus]:
        gone = {one for one in self.ever if parent(one) == path}
        try:
            found = super().list_status(path)
        except FileNotFoundError:
            if not gone:
                raise
            found = []
        missing = sorted(gone - {one.path for one in found})
        return [*found, *(FileStatus(one, is_directory=True) for one in missing)]


def test_a_job_is_not_there_if_only_its_directories_are_listed():
    store, job = ShowsWhatIsGone(), new_job_attempt("/table", "job_1", 0)
    for number in range(2):
        write_job(store, job, {0: {f"a{number}": b"1"}})
        assert [one.job.job_id for one in jobs_at(store, "/table")] == ["job_1"]
        run_commit(store, job)
        assert "/table/_temporary/job_1" in [one.path for one in store.list_status("/table/_temporary")]
        assert not read_job(store, job).exists
        assert jobs_at(store, "/table") == []
