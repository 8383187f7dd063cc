"""Setting up a task attempt makes its directory once, in a job that is set up."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import PathError, TaskCommitError


def test_a_task_of_a_job_that_was_never_set_up_is_refused(dest: Path):
    with (
        pytest.raises(TaskCommitError, match="call setup_job first"),
        ray_committer.task_attempt(str(dest), "job_1", 0),
    ):
        pytest.fail("the attempt must not start")


def test_a_path_that_leads_out_is_refused(dest: Path):
    ray_committer.setup_job(str(dest), "job_1")
    with (
        pytest.raises(PathError, match=r"\.\."),
        ray_committer.task_attempt(str(dest), "job_1", 0) as running,
    ):
        running.path("../../out")
