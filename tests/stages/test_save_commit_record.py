"""The commit record and the commit point: one rename each, and whoever came first stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import (
    CommitterBusyError,
    RayCommitterError,
)
from ray_committer.testing import run_commit
from tests.stages.support import before_the_write


def test_a_record_of_a_later_version_is_not_touched(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    record = json.loads(Path(job.commit_record).read_bytes())
    Path(job.commit_record).write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(RayCommitterError, match="version 2"):
        ray_committer.commit_job(str(dest))
    assert tree() == {}


def test_a_committer_that_another_overtakes_with_other_manifests_stops(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x"}})

    def overtake() -> None:
        with ray_committer.task_attempt(str(dest), "job_1", 1) as attempt:
            Path(attempt.path("b")).write_text("y")
        ray_committer.record_job(str(dest), "job_1")

    with pytest.raises(CommitterBusyError):
        run_commit(before_the_write(overtake), job)
    assert tree() == {}
    ray_committer.commit_job(str(dest))
    assert tree() == {"a": "x", "b": "y"}
