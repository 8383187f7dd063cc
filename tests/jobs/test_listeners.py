"""Functions of the caller that hear of an operation do not decide how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import CommitConflictError


def broken(_: object) -> None:
    raise ZeroDivisionError


def test_a_listener_that_fails_changes_no_commit_and_no_abort(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    report = ray_committer.commit_job(str(dest), on_event=broken, on_report=broken)
    assert (report.outcome, report.files) == (Outcome.COMMITTED, 1)
    assert report.stages  # are recorded in spite of it
    write_job({0: {"a": "another"}}, job_id="job_2")
    with pytest.raises(CommitConflictError):
        ray_committer.commit_job(str(dest), on_event=broken, on_report=broken)
    assert ray_committer.abort_job(str(dest), on_event=broken, on_report=broken)
