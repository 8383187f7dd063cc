"""Directories of other users, on real files: only what may not be read is left out of a look."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError
from ray_committer.events import Event, Notice
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from tests.conftest import visible_files

NOBODY = 65534
OPTIONS = CommitOptions(mode=ConflictMode.OVERWRITE, conflict_wait_seconds=0)
NAMES = ("job_0", "job_8")
"""They are listed before and after the job that may be read."""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")


def close(path: str, mode: int = 0o700) -> str:
    Path(path).chmod(mode)
    return path


CLOSED: dict[str, Callable[[JobAttempt], str]] = {
    "the job": lambda job: close(job.job_directory),
    "the names in the job": lambda job: f"{close(job.job_directory, 0o744)}/00",
    "the job, which may only be passed": lambda job: close(job.job_directory, 0o711),
    "the attempt": lambda job: f"{close(job.directory)}/state",
    "the state": lambda job: close(job.state),
    "what it has declared": lambda job: close(declaration_of(job), 0o600),
}


def declaration_of(job: JobAttempt) -> str:
    """What belongs to the state of a job whose commit is recorded."""
    return str(max(Path(job.state).glob("*.json"), key=lambda path: path.stat().st_size))


def write(destination: Path, job_id: str, name: str) -> JobAttempt:
    ray_committer.setup_job(str(destination), job_id)
    with ray_committer.task_attempt(str(destination), job_id, 0) as attempt:
        Path(attempt.path(name)).write_text("x")
    return new_job_attempt(str(destination), job_id, 0)


def give_away(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize("what", CLOSED)
def test_a_closed_job_above_the_destination_hides_none_beside_it(
    open_dest: Path, request: pytest.FixtureRequest, what: str
):
    above, table = open_dest, open_dest / "table"
    closed = []
    for job_id in NAMES:
        closed.append(write(above, job_id, f"table/p=1/{job_id}"))
        ray_committer.record_job(str(above), job_id)
    readable = write(above, "job_2", "table/p=1/b")
    ray_committer.record_job(str(above), "job_2")
    write(table, "job_1", "p=1/a")
    give_away(table)
    places = [CLOSED[what](job) for job in closed]
    notices: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    request.getfixturevalue("unprivileged")
    with pytest.raises(CommitConflictError, match=f"{readable.directory}.*--job-id job_2"):
        ray_committer.commit_job(str(table), "job_1", executor="inline", options=OPTIONS, on_event=hear)
    told = [notice.partition(": no permission to read it; ")[0] for notice in notices]
    assert sorted(told) == sorted(places)
    os.seteuid(0)
    ray_committer.commit_job(str(above), "job_2", options=CommitOptions(mark_success=False))
    give_away(table)
    os.seteuid(NOBODY)
    report = ray_committer.commit_job(str(table), "job_1", executor="inline", options=OPTIONS)
    assert report.replaced == 1
    assert visible_files(table) == {"p=1/a": "x"}
