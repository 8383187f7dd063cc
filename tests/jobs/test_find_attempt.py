"""Which job attempt a command is about."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    AmbiguousJobError,
    CommitStateUnknownError,
    JobGoneError,
    JobNotFoundError,
    PathError,
)
from ray_committer.jobs.find_attempt import find_job_attempt
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.setup_job import setup_job
from ray_committer.testing import MemoryStore, run_commit
from tests.stages.support import JOB, OTHER_JOB, a_file, bring_to, closed, requests, seen_in, set_up


@pytest.mark.parametrize("is_marked", [True, False])
def test_no_other_job_answers_for_one_that_is_recorded_and_taken_away(
    store, write_job, dest: Path, tree, is_marked: bool
):
    first = write_job({0: {"a": "x"}})
    job = write_job({0: {"b": "y"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2")
    run_commit(store, first, CommitOptions(mark_success=is_marked))
    assert Path(job.success).exists() is is_marked
    gone = Path(job.gone("0123").directory)
    os.rename(job.directory, gone)
    Path(job.job_directory).rmdir()
    with pytest.raises(
        CommitStateUnknownError, match=f"job_2.*move it back to {job.directory}"
    ) as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 3
    Path(job.job_directory).mkdir()
    os.rename(gone, job.directory)
    assert ray_committer.commit_job(str(dest)).moved == 1
    assert tree() == {"a": "x", "b": "y"}


def test_two_jobs_or_two_attempts_must_be_told_apart(write_job, dest: Path, store, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}}, job_id="job_2")
    with pytest.raises(AmbiguousJobError, match=r"job_1, job_2.*--job-id") as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 2
    setup_job(store, new_job_attempt(str(dest), "job_2", 1))
    with pytest.raises(AmbiguousJobError, match="--attempt"):
        ray_committer.commit_job(str(dest), "job_2")
    assert tree() == {}
    options = CommitOptions(job_attempt=0)
    ray_committer.abort_job(str(dest), "job_2", options=CommitOptions(job_attempt=1))
    assert ray_committer.commit_job(str(dest), "job_2", options=options).moved == 1


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.RECORDED])
def test_an_older_attempt_is_aborted_beside_a_newer_one(write_job, dest: Path, store, phase: Phase):
    older = write_job({0: {"a": "x"}})
    newer = new_job_attempt(str(dest), "job_1", 1)
    setup_job(store, newer)
    bring_to(store, phase, job=newer)
    options = CommitOptions(job_attempt=0)
    assert ray_committer.plan_abort(str(dest), "job_1", options=options).files == 1
    assert ray_committer.abort_job(str(dest), "job_1", options=options)
    assert not Path(older.directory).exists()
    assert seen_in(store, newer).phase is phase


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "/etc"])
def test_a_job_id_that_is_no_name_is_refused(dest: Path, job_id: str):
    (dest / "00").mkdir(parents=True)
    (dest / "_temporary").mkdir()
    with pytest.raises(PathError, match="job id"):
        ray_committer.abort_job(str(dest), job_id, options=CommitOptions(job_attempt=0))
    assert (dest / "00").is_dir()


def test_a_job_that_is_named_is_found_beside_one_that_may_not_be_read():
    store = set_up(JOB)
    store.mkdirs(OTHER_JOB.manifests)
    beside = closed(store, OTHER_JOB.job_directory)
    assert find_job_attempt(beside, "/table", JOB.job_id, None) == JOB
    with pytest.raises(PermissionError, match=OTHER_JOB.job_directory):
        find_job_attempt(beside, "/table", OTHER_JOB.job_id, None)


def test_which_of_two_jobs_is_meant_is_not_guessed_where_one_may_not_be_read():
    store = set_up(JOB)
    store.mkdirs(OTHER_JOB.manifests)
    with pytest.raises(AmbiguousJobError, match=r"job_1, job_2\); name one with --job-id"):
        find_job_attempt(closed(store, OTHER_JOB.job_directory), "/table", None, None)
    store.delete_directory(JOB.job_directory)
    with pytest.raises(PermissionError, match=OTHER_JOB.job_directory):
        find_job_attempt(closed(store, OTHER_JOB.job_directory), "/table", None, None)


def test_an_attempt_that_is_named_in_full_costs_no_request():
    def find(store) -> None:
        assert find_job_attempt(store, "/table", "job_1", 0) == JOB

    assert requests(MemoryStore(), find) == Counter()


@pytest.mark.parametrize(("job_id", "number"), [(None, None), ("job_1", None), (None, 0)])
def test_the_only_attempt_of_the_only_job_needs_no_name(job_id: str | None, number: int | None):
    assert find_job_attempt(set_up(JOB), "/table", job_id, number) == JOB


@pytest.mark.parametrize(
    ("new", "job_id", "text"),
    [
        (MemoryStore, None, "/table: does not exist"),
        (lambda: a_file("/table"), None, "/table: is a file"),
        (lambda: a_file("/table/a"), None, "holds no job to commit"),
        (lambda: a_file("/table/a"), "job_9", "holds nothing of job job_9 to commit"),
        (lambda: set_up(JOB, OTHER_JOB), "job_9", "The jobs that are there: job_1, job_2"),
    ],
)
def test_a_job_that_is_not_there_is_an_error_that_names_the_others(new, job_id: str | None, text: str):
    error = JobGoneError if job_id is not None else JobNotFoundError
    with pytest.raises(error, match=text):
        find_job_attempt(new(), "/table", job_id, None)
