"""An aborted task attempt leaves no file; the rest of the job stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_committer


def write_attempt(dest: Path, task: int, attempt: int, name: str, text: str | None) -> None:
    with ray_committer.task_attempt(str(dest), "job_1", task, attempt) as running:
        Path(running.path(name)).touch()
        Path(running.path(name)).write_text(text)  # type: ignore[arg-type]


def test_a_failed_attempt_leaves_nothing(dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1")
    write_attempt(dest, 0, 0, "good", "1")
    with pytest.raises(TypeError):
        write_attempt(dest, 1, 0, "bad", None)  # fails after it has made its file
    assert len(list((dest / "_temporary/job_1/00/tasks").iterdir())) == 1
    ray_committer.commit_job(str(dest), "job_1")
    assert tree() == {"good": "1"}
