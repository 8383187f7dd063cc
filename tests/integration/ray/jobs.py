"""Jobs for the tests on Ray, and the processes of their clusters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import ray_committer


def write_files(dest: Path, *, tasks: int, files: int, job_id: str = "job_1") -> dict[str, str]:
    """A job of `files` files, each with content of its own, over `tasks` tasks."""
    ray_committer.setup_job(str(dest), job_id)
    written = {}
    for task in range(tasks):
        with ray_committer.task_attempt(str(dest), job_id, task) as attempt:
            for number in range(task, files, tasks):
                name = f"p={number % 20}/part-{job_id}-{task:05d}-{number}"
                Path(attempt.path(name)).write_text(str(number))
                written[name] = str(number)
    return written


def processes(name: str) -> list[int]:
    """The processes of this test's cluster that Ray calls `name`; they descend from this one."""
    return [pid for pid, title in _titles() if title.startswith(f"ray::{name}")]


def commit_workers() -> list[int]:
    """The workers of this test's cluster; Ray calls each that is at work by its task."""
    return [
        pid
        for pid, title in _titles()
        if title.startswith("ray::CommitWorker") or (title.startswith("ray::") and " of " in title)
    ]


def _titles() -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            pid = int(path.parent.name)
            title = path.read_bytes().decode(errors="replace")
            if os.getpid() in _ancestors(pid):
                yield pid, title


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
