"""Setting up a job makes its directory once, and warns of commits that never ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import TaskCommitError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task


def test_setting_up_twice_is_refused(dest: Path, store):
    job = new_job_attempt(str(dest), "job_1", 0)
    setup_job(store, job)
    with pytest.raises(TaskCommitError, match="exists already"):
        setup_job(store, job)
    setup_task(store, job, "attempt_1_m_0_0")
    with pytest.raises(TaskCommitError, match="attempt_1_m_0_0: exists already"):
        setup_task(store, job, "attempt_1_m_0_0")


def test_setup_removes_the_marker_of_an_earlier_job_only_if_it_writes_one(dest: Path, store):
    dest.mkdir()
    for number, mark, left in ((1, False, True), (2, True, False)):
        (dest / "_SUCCESS").touch()
        setup_job(store, new_job_attempt(str(dest), f"job_{number}", 0), mark_success=mark)
        assert (dest / "_SUCCESS").exists() is left


def test_setup_warns_of_a_job_whose_commit_never_ended(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest), "job_1")
    warnings: list[str] = []
    ray_committer.setup_job(str(dest), "job_2", on_warning=warnings.append)
    assert len(warnings) == 1
    assert "ray-committer commit" in warnings[0]
    assert "job_1" in warnings[0]
