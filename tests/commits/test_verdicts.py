"""What the report of a commit that failed says of the job: whether it is committed, if that is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, CommitReport, Outcome
from ray_committer.errors import RayCommitterError
from ray_committer.jobs import open_job
from ray_committer.report.text import verdict_line
from ray_committer.testing import StoreCall, WrappedStore

Hook = Callable[[StoreCall], None]


@pytest.fixture
def commit(write_job, dest: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Hook], CommitReport]:
    """Commits two files on a store with a hook before each request; the report of the failure."""

    def run(before: Hook) -> CommitReport:
        opened, reports = open_job.open_store, list[CommitReport]()
        monkeypatch.setattr(
            open_job, "open_store", lambda spec, **_: WrappedStore(opened(spec), before=before)
        )
        write_job({0: {"a": "x", "b": "y"}})
        with pytest.raises(RayCommitterError):
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


def test_a_job_whose_marker_cannot_be_written_is_committed(commit):
    def fail_late(call: StoreCall) -> None:
        if call.operation == "replace" and call.paths[-1].endswith("/_SUCCESS"):
            refuse(call)

    report = commit(fail_late)
    assert report.committed is True
    assert verdict_line(report).startswith("committed, but not to its end: job job_1, 2 of 2 files")
