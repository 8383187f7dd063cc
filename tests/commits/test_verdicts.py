"""What the report of a commit that failed says of the job: whether it is committed, if that is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, CommitReport, Outcome
from ray_committer.errors import (
    CommitStateUnknownError,
    JobGoneError,
    RayCommitterError,
)
from ray_committer.protocol.success import decode_success
from ray_committer.report.old_job import report_of_success
from ray_committer.report.text import verdict_line
from ray_committer.testing import StoreCall
from tests.opening import opening

Hook = Callable[[StoreCall], None]


@pytest.fixture
def commit(write_job, dest: Path) -> Callable[[Hook], CommitReport]:
    """Commits two files on a store with a hook before each request; the report of the failure."""

    def run(before: Hook) -> CommitReport:
        reports: list[CommitReport] = []
        write_job({0: {"a": "x", "b": "y"}})
        with opening(before=before), pytest.raises(RayCommitterError):
            ray_committer.commit_job(
                str(dest),
                executor="inline",
                options=CommitOptions(retry_seconds=0.0),
                on_report=reports.append,
            )
        assert reports[0].outcome is Outcome.FAILED
        return reports[0]

    return run


def refuse(call: StoreCall) -> None:
    raise PermissionError(13, "simulated", call.paths[0])


def is_file(call: StoreCall) -> bool:
    return call.operation == "rename" and call.paths[-1].endswith("/b")


def test_a_job_whose_file_cannot_be_moved_is_not_committed(commit):
    report = commit(lambda call: refuse(call) if is_file(call) else None)
    assert report.committed is False
    assert verdict_line(report).startswith("NOT committed: job job_1, 1 of 2 files in place, after ")


def test_a_job_that_is_refused_is_not_committed(commit, dest: Path):
    def put_a_file_there(call: StoreCall) -> None:
        if is_file(call):
            (dest / "b").write_text("another")

    report = commit(put_a_file_there)
    assert report.committed is False


def test_a_job_whose_store_is_gone_in_the_middle_is_unknown(commit):
    gone: list[None] = []

    def go(call: StoreCall) -> None:
        gone.extend([None] if is_file(call) else [])
        if gone:
            refuse(call)

    report = commit(go)
    assert report.committed is None
    assert verdict_line(report).startswith("UNKNOWN whether committed: job job_1, 1 of 2 files in place")


def fail_late(call: StoreCall) -> None:
    if call.operation == "replace" and call.paths[-1].endswith("/_SUCCESS"):
        refuse(call)


def test_a_job_whose_marker_cannot_be_written_is_committed(commit):
    report = commit(fail_late)
    assert report.committed is True
    assert verdict_line(report).startswith("committed, but not to its end: job job_1, 2 of 2 files")


def is_setup(call: StoreCall) -> bool:
    return call.operation == "list_status" and call.paths[0].endswith("/manifests")


def at_commit_point(call: StoreCall) -> bool:
    return call.operation == "advance" and call.paths[-1].startswith("committed")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize(
    ("is_there", "committed"), [(at_commit_point, None), (is_setup, False)], ids=["point", "begin"]
)
def test_an_interrupted_job_is_not_taken_for_one_that_is_not_committed(
    write_job, dest: Path, error, is_there, committed: bool | None
):
    def stop(call: StoreCall) -> None:
        if is_there(call):
            raise error

    reports: list[CommitReport] = []
    write_job({0: {"a": "x"}})
    with opening(after=stop), pytest.raises(error):
        ray_committer.commit_job(str(dest), executor="inline", on_report=reports.append)
    assert reports[0].committed is committed


def test_a_job_of_which_nothing_is_left_is_unknown(write_job, dest: Path):
    for job_id in ("job_1", "job_2"):
        write_job({0: {job_id: "x"}}, job_id=job_id)
        ray_committer.commit_job(str(dest), job_id)
    (dest / "_temporary" / "job_1" / "0").mkdir(parents=True)  # a process that slept has made it
    reports: list[CommitReport] = []
    with pytest.raises(JobGoneError):
        ray_committer.commit_job(str(dest), "job_1", on_report=reports.append)
    assert reports[0].committed is None


def test_a_job_that_is_gone_from_a_store_that_fails_is_unknown(write_job, dest: Path):
    def fail(call: StoreCall) -> None:
        if call.paths[-1].endswith("/_SUCCESS"):
            raise OSError(5, "simulated", call.paths[0])

    write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest), "job_1")
    (dest / "_temporary" / "job_1" / "0").mkdir(parents=True)
    reports: list[CommitReport] = []
    options = CommitOptions(retry_seconds=0.0, job_attempt=0)
    unknown = pytest.raises(CommitStateUnknownError, match="not known whether the job is committed")
    with opening(before=fail), unknown:
        ray_committer.commit_job(str(dest), "job_1", options=options, on_report=reports.append)
    assert reports[0].committed is None


def test_a_summary_report_of_a_job_whose_marker_cannot_be_written_says_that_it_is_committed(
    write_job, dest: Path, tmp_path: Path
):
    write_job({0: {"a": "x"}})
    options = CommitOptions(retry_seconds=0.0, summary_directory=str(tmp_path))
    with opening(before=fail_late), pytest.raises(RayCommitterError):
        ray_committer.commit_job(str(dest), executor="inline", options=options)
    path = tmp_path / "summary-job_1.json"
    found = decode_success(path.read_bytes(), str(path))
    assert found is not None
    report = report_of_success(found, str(path))
    assert report.outcome is Outcome.FAILED
    assert report.committed is True


def test_a_job_that_another_process_has_recorded_is_unknown_if_the_store_fails_then(
    write_job, dest: Path
):
    recorded: list[str] = []

    def overtake(call: StoreCall) -> None:
        if call.operation == "read" and recorded == ["done"]:
            refuse(call)
        if call.operation == "advance" and call.paths[-1].startswith("declared") and not recorded:
            recorded.append("begun")
            ray_committer.record_job(str(dest), executor="inline")
            recorded[:] = ["done"]

    reports: list[CommitReport] = []
    write_job({0: {"a": "x"}})
    with opening(before=overtake), pytest.raises(CommitStateUnknownError):
        ray_committer.commit_job(str(dest), executor="inline", on_report=reports.append)
    assert reports[0].committed is None
