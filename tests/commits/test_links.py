"""What is behind a symbolic link below `_temporary` is not the job's: neither moved nor deleted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError, LinkedPathError
from ray_committer.protocol.paths import JobAttempt
from tests.conftest import visible_files

LINKED = ("_temporary", "_temporary/job_1", "_temporary/job_1/00", "manifests", "tasks")


@pytest.fixture
def job(write_job) -> JobAttempt:
    return write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "y"}})


def link(job: JobAttempt, dest: Path, name: str, archive: Path) -> Path:
    """Move a directory of the job away, to where somebody keeps it, and put a link in its place."""
    path = dest / name if name.startswith("_temporary") else Path(job.directory, name)
    shutil.move(path, archive)
    path.symlink_to(archive)
    return path


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


FIRST = CommitOptions(job_attempt=0)
ACTIONS: dict[str, Callable[[Path], object]] = {
    "commit": lambda dest: ray_committer.commit_job(str(dest), "job_1", options=FIRST),
    "abort": lambda dest: ray_committer.abort_job(str(dest), "job_1", options=FIRST),
    "set up": lambda dest: ray_committer.setup_job(str(dest), "job_1"),
    "task attempt": lambda dest: ray_committer.task_attempt(str(dest), "job_1", 7).__enter__(),
}


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_directory_of_the_job_that_is_a_link_is_named_and_what_is_behind_it_stays(
    job: JobAttempt, dest: Path, tmp_path: Path, name: str, action: str
):
    archive = tmp_path / "archive"
    path = link(job, dest, name, archive)
    before = content(archive)
    with pytest.raises(LinkedPathError, match="is a symbolic link") as caught:
        ACTIONS[action](dest)
    assert str(path) in str(caught.value)
    assert content(archive) == before
    assert visible_files(dest) == {}


@pytest.mark.parametrize("name", LINKED)
def test_a_job_goes_on_when_its_link_is_gone(job: JobAttempt, dest: Path, tmp_path: Path, name: str):
    archive = tmp_path / "archive"
    path = link(job, dest, name, archive)
    with pytest.raises(LinkedPathError):
        ray_committer.commit_job(str(dest), "job_1", options=FIRST)
    path.unlink()
    shutil.move(archive, path)
    ray_committer.commit_job(str(dest), "job_1")
    assert visible_files(dest) == {"p=1/a": "x", "p=2/b": "y"}


@pytest.mark.parametrize("name", LINKED[1:])
def test_vacuum_names_a_link_and_deletes_nothing_behind_it(
    job: JobAttempt, dest: Path, tmp_path: Path, name: str
):
    archive = tmp_path / "archive"
    link(job, dest, name, archive)
    for path in (*archive.rglob("*"), archive, *dest.rglob("*")):
        os.utime(path, (0, 0), follow_symlinks=False)
    before = content(archive)
    found = ray_committer.vacuum_jobs(str(dest), older_than_seconds=3600)
    assert content(archive) == before
    kept = [one for one in found if not one.removed]
    if name != "_temporary/job_1/00":  # then the job's directory has no attempt, only a link that goes
        assert any("symbolic link" in (one.reason or "") for one in kept)


def test_vacuum_refuses_a_temporary_directory_that_is_a_link(
    job: JobAttempt, dest: Path, tmp_path: Path
):
    link(job, dest, "_temporary", tmp_path / "archive")
    before = content(tmp_path / "archive")
    with pytest.raises(LinkedPathError):
        ray_committer.vacuum_jobs(str(dest), older_than_seconds=3600)
    assert content(tmp_path / "archive") == before


def test_a_file_behind_a_link_in_a_task_attempt_is_not_moved(
    job: JobAttempt, dest: Path, tmp_path: Path
):
    """Its manifest says that the task wrote it: a path that is inside by its name alone."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("of others")
    (manifest,) = Path(job.manifests).glob("task_1_m_000000*")
    told = json.loads(manifest.read_text())
    directory = Path(told["taskAttemptDir"].removeprefix("file:"))
    (directory / "link").symlink_to(elsewhere)
    told["files"][0] |= {"s": f"file:{directory}/link/secret", "z": len("of others")}
    told["files"][0].pop("m", None)
    manifest.write_text(json.dumps(told))
    with pytest.raises(LinkedPathError, match="link: is a symbolic link"):
        ray_committer.commit_job(str(dest), "job_1")
    assert (elsewhere / "secret").read_text() == "of others"
    assert visible_files(dest) == {}


def test_a_link_among_the_remains_of_a_task_is_removed_and_not_what_it_leads_to(
    job: JobAttempt, dest: Path, tmp_path: Path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("of others")
    attempt = next(Path(job.tasks).iterdir())
    (attempt / "link").symlink_to(elsewhere)
    ray_committer.commit_job(str(dest), "job_1")
    assert not (dest / "_temporary").exists()
    assert (elsewhere / "kept").read_text() == "of others"


@pytest.mark.parametrize("name", ["p=1", "p=1/q=1"])
def test_a_partition_that_is_a_link_is_not_replaced(
    job: JobAttempt, dest: Path, tmp_path: Path, name: str
):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "q=1").mkdir(parents=True)
    (elsewhere / "q=1" / "old").write_text("of others")
    target = elsewhere if name == "p=1" else elsewhere / "q=1"
    (dest / name).parent.mkdir(exist_ok=True)
    (dest / name).symlink_to(target)
    options = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=(f"{dest}/p=1/q=1",))
    with pytest.raises(LinkedPathError, match="is a symbolic link"):
        ray_committer.commit_job(str(dest), "job_1", options=options)
    assert (elsewhere / "q=1" / "old").read_text() == "of others"
    assert ray_committer.list_jobs(str(dest))[0].state == "running"


REPLACE = CommitOptions(mode=ConflictMode.OVERWRITE)


@pytest.mark.parametrize("is_linked", [(False, True), (True, False)], ids=["the second", "the first"])
@pytest.mark.parametrize("options", [CommitOptions(), REPLACE], ids=["append", "overwrite"])
def test_jobs_that_reach_one_directory_by_two_names_are_in_each_others_way(
    dest: Path, tmp_path: Path, is_linked: tuple[bool, bool], options: CommitOptions
):
    """The first is recorded, and the other is to replace what is there."""
    elsewhere = tmp_path / "names"
    elsewhere.mkdir()
    dest.mkdir()
    (elsewhere / "table").symlink_to(dest)
    first, second = (str(elsewhere / "table" if linked else dest) for linked in is_linked)
    for path, job_id, own in ((first, "job_1", options), (second, "job_2", REPLACE)):
        ray_committer.setup_job(path, job_id, options=own)
        with ray_committer.task_attempt(path, job_id, 0) as attempt:
            Path(attempt.path(f"p=1/{job_id}")).write_text("x")
    ray_committer.record_job(first, "job_1", options=options)
    with pytest.raises(CommitConflictError, match="job_1"):
        ray_committer.commit_job(second, "job_2", options=REPLACE)
    ray_committer.commit_job(first, "job_1", options=options)
    assert visible_files(dest) == {"p=1/job_1": "x"}
    ray_committer.commit_job(second, "job_2", options=REPLACE)
    assert visible_files(dest) == {"p=1/job_2": "x"}
    assert not (dest / "_temporary").exists()
