"""A task's commit is a manifest of what its attempt wrote; it moves no data."""

from __future__ import annotations

import json
from pathlib import Path

import ray_committer
from ray_committer.testing import run_commit


def write_attempt(dest: Path, task: int, attempt: int, name: str, text: str | None) -> None:
    with ray_committer.task_attempt(str(dest), "job_1", task, attempt) as running:
        Path(running.path(name)).touch()
        Path(running.path(name)).write_text(text)  # type: ignore[arg-type]


def test_nothing_is_visible_before_the_job_commits(dest: Path, write_job, tree):
    write_job({0: {"a": "x"}})
    assert tree() == {}


def test_the_last_attempt_of_a_task_wins(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    write_attempt(dest, 0, 0, "first", "1")
    write_attempt(dest, 0, 1, "second", "2")
    assert ray_committer.commit_job(str(dest), "job_1").manifests == 1
    assert tree() == {"second": "2"}


def test_an_empty_task_has_a_small_manifest(dest: Path, store, write_job):
    job = write_job({0: {}})
    (manifest,) = Path(job.manifests).iterdir()
    assert manifest.stat().st_size < 1000
    assert json.loads(manifest.read_bytes())["files"] == []
    assert run_commit(store, job).files == 0
