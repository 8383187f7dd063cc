"""The life of one job, in Hadoop's order, at a destination with a space in its name.

Two tasks of two attempts each. Source: Hadoop TestJobThroughManifestCommitter, by scenario.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import TaskCommitError, ValidationError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.local import LocalStore
from tests.conftest import visible_files
from tests.doubles import recorded

FIRST, LAST = "of the first attempt", "of the last attempt"


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "out put"


@pytest.fixture
def job(dest: Path) -> JobAttempt:
    ray_committer.setup_job(str(dest), "job_1")
    return new_job_attempt(str(dest), "job_1", 0)


def names(task: int, attempt: int) -> list[str]:
    """A tree of depth 3; the attempts of a task have some files in common and some of their own."""
    common = [f"year={year}/month={month}/t{task}-{year}{month}" for year in (1, 2) for month in (1, 2)]
    return [*common, f"only-{task}-{attempt}/file", f"top {task}{attempt}"]


def write(job: JobAttempt, task: int, attempt: int, text: str) -> None:
    with ray_committer.task_attempt(job.destination, job.job_id, task, attempt) as running:
        for name in names(task, attempt):
            Path(running.path(name)).write_text(text)


def saved(job: JobAttempt, task: int) -> TaskManifest:
    path = job.manifest(f"task_1_m_{task:06d}")
    return decode_manifest(Path(path).read_bytes(), path)


def commit(store: LocalStore, job: JobAttempt, attempt: str, stamp: str) -> None:
    """Commit an attempt of task 1 to the job with this stamp."""
    commit_task(store, job, task_id="task_1_m_000001", task_attempt_id=attempt, stamp=stamp, attempts=1)


@pytest.fixture
def written(job: JobAttempt) -> JobAttempt:
    """Both attempts of both tasks have committed, the second one last."""
    for attempt, text in ((0, FIRST), (1, LAST)):
        for task in (0, 1):
            write(job, task, attempt, text)
    return job


def test_set_up_makes_the_directory_of_the_job_attempt_and_nothing_visible(job, dest: Path):
    assert Path(job.directory) == dest / "_temporary" / "job_1" / "00"
    assert Path(job.manifests).is_dir()
    assert visible_files(dest) == {}


def test_another_attempt_of_a_job_is_set_up_beside_the_first(job, dest: Path):
    ray_committer.setup_job(str(dest), "job_1", options=CommitOptions(job_attempt=1))
    found = ray_committer.list_jobs(str(dest))
    assert [(one.job_id, one.job_attempt, one.state) for one in found] == [
        ("job_1", 0, "running"),
        ("job_1", 1, "running"),
    ]


def test_a_task_attempt_that_was_aborted_cannot_commit_and_leaves_no_manifest(job, store: LocalStore):
    attempt = "attempt_1_m_000001_1"
    _, stamp = setup_task(store, job, attempt)
    assert abort_task(store, job, attempt) is True
    with pytest.raises(TaskCommitError, match=f"{attempt}: is gone"):
        commit(store, job, attempt, stamp)
    assert list(Path(job.manifests).iterdir()) == []


def test_an_aborted_attempt_leaves_the_manifest_of_the_attempt_before_it(job, store: LocalStore):
    write(job, 1, 0, FIRST)
    before = saved(job, 1)
    attempt = "attempt_1_m_000001_1"
    directory, stamp = setup_task(store, job, attempt)
    Path(directory, "unfinished").write_text("x")
    abort_task(store, job, attempt)
    with pytest.raises(TaskCommitError):
        commit(store, job, attempt, stamp)
    assert saved(job, 1) == before
    assert before.task_attempt_id == "attempt_1_m_000001_0"


def test_a_manifest_lists_exactly_the_files_of_its_attempt(job, dest: Path):
    write(job, 0, 0, FIRST)
    manifest = saved(job, 0)
    assert (manifest.job_id, manifest.task_id) == ("job_1", "task_1_m_000000")
    assert manifest.task_attempt_id == "attempt_1_m_000000_0"
    root = f"file:{dest}".replace(" ", "%20")
    listed = [file.d.removeprefix(f"{root}/").replace("%20", " ") for file in manifest.files]
    assert sorted(listed) == sorted(names(0, 0))
    assert {file.z for file in manifest.files} == {len(FIRST)}


def test_the_manifest_on_the_store_is_that_of_the_last_attempt(written: JobAttempt):
    assert [saved(written, task).task_attempt_id for task in (0, 1)] == [
        "attempt_1_m_000000_1",
        "attempt_1_m_000001_1",
    ]


def test_the_job_is_the_last_attempt_of_each_task(written: JobAttempt, store: LocalStore, dest: Path):
    ray_committer.record_job(str(dest))
    record = recorded(store, written)
    assert [ref.task_attempt_id for ref in record.manifests] == [
        "attempt_1_m_000000_1",
        "attempt_1_m_000001_1",
    ]
    assert (record.files, record.bytes) == (12, 12 * len(LAST))
    assert visible_files(dest) == {}


def test_a_committed_job_has_the_files_of_the_last_attempts_and_no_others(written, dest: Path):
    ray_committer.commit_job(str(dest))
    assert visible_files(dest) == {name: LAST for task in (0, 1) for name in names(task, 1)}


def success_file(dest: Path) -> SuccessData:
    path = dest / "_SUCCESS"
    success = decode_success(path.read_bytes(), str(path))
    assert success is not None
    return success


def test_every_name_in_the_marker_is_of_a_file_that_is_there(written, dest: Path):
    ray_committer.commit_job(str(dest))
    root = f"file:{dest}/".replace(" ", "%20")
    named = {uri.removeprefix(root).replace("%20", " ") for uri in success_file(dest).filenames or ()}
    assert named == set(visible_files(dest))


def test_the_marker_says_who_committed_what_and_how_much(written, dest: Path):
    report = ray_committer.commit_job(str(dest))
    success = success_file(dest)
    assert (success.success, success.committer) == (True, "ray_committer")
    assert (success.job_id, success.job_id_source) == ("job_1", "JobID")
    assert success.hostname == socket.gethostname()
    assert success.diagnostics is not None
    assert success.diagnostics["stage"] == "committer_commit_job"
    assert success.iostatistics is not None
    counters = success.iostatistics.counters
    assert counters["committer_files_committed"] == report.files == 12
    assert counters["committer_bytes_committed"] == report.bytes == 12 * len(LAST)
    assert counters["job_stage_rename_files"] == 1
    failed = {name for name in counters if name.endswith(".failures")}
    assert failed <= {"op_list_status.failures"}  # of other jobs, where there are none


@pytest.mark.parametrize(("text", "found"), [("", "has 0 bytes"), (FIRST, f"has {len(FIRST)} bytes")])
def test_a_file_that_was_edited_afterwards_does_not_validate(written, dest: Path, text: str, found: str):
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    assert ray_committer.validate_job(str(dest)).compared == 12
    (dest / "year=1" / "month=2" / "t0-12").write_text(text)
    with pytest.raises(ValidationError, match=f"month=2/t0-12: {found}"):
        ray_committer.validate_job(str(dest))


def test_a_file_that_was_edited_to_the_same_size_does_not_validate(written, dest: Path):
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    edited = dest / "top 01"
    edited.write_text(LAST.swapcase())
    os.utime(edited, (1, 1))
    with pytest.raises(ValidationError, match="top 01: was changed"):
        ray_committer.validate_job(str(dest))


def test_a_job_that_is_over_is_cleaned_up_and_says_so_again(written, dest: Path):
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.COMMITTED
    assert sorted(path.name for path in dest.iterdir() if path.name.startswith("_")) == ["_SUCCESS"]
    marker = (dest / "_SUCCESS").read_bytes()
    assert ray_committer.commit_job(str(dest)).outcome is Outcome.ALREADY_COMMITTED
    assert (dest / "_SUCCESS").read_bytes() == marker
    assert json.loads(marker)["jobId"] == "job_1"
