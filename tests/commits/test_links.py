"""What is behind a symbolic link below `_temporary` is not the job's: neither moved nor deleted."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError, LinkedPathError
from ray_committer.events import Event, Notice
from ray_committer.protocol.paths import MARK, JobAttempt
from ray_committer.protocol.record import Claim
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import SimulatedCrash, StoreCall
from tests.conftest import visible_files
from tests.opening import opening
from tests.stages.support import ALIVE, at, bring_to, record_of, staged_name

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
    assert any("symbolic link" in (one.reason or "") for one in found if not one.removed)


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


@pytest.mark.parametrize("shared", ["in", "in/*", "root", "root/*"])
@pytest.mark.parametrize("tells_number", [False, True])
def test_staged_files_behind_a_link_are_not_moved(
    write_job, dest: Path, tmp_path: Path, shared: str, tells_number: bool
):
    staged = {staged_name("p=1/a"): "x", staged_name("b"): "y"}
    job, archive = write_job({0: staged}), tmp_path / "archive"
    (path,) = (one for one in Path(job.tasks).glob(shared) if not one.name.startswith(MARK))
    link(job, dest, f"tasks/{path.relative_to(job.tasks)}", archive)
    before = content(archive)
    options = CommitOptions(expected_tasks=1) if tells_number else CommitOptions()
    with pytest.raises(LinkedPathError, match="is a symbolic link"):
        ray_committer.commit_job(str(dest), job.job_id, options=options)
    assert content(archive) == before
    assert visible_files(dest) == {}
    path.unlink()
    shutil.move(archive, path)
    ray_committer.commit_job(str(dest), job.job_id)
    assert visible_files(dest) == staged


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


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.ERROR_PARTITIONS])
@pytest.mark.parametrize("where", ["elsewhere", "p=9"])
def test_a_partition_that_is_a_link_is_refused_for_an_append(
    write_job, dest: Path, tmp_path: Path, where: str, mode: ConflictMode
):
    """Wherever it leads: out of the table, or to another partition; all links are named."""
    target = dest / where if where == "p=9" else tmp_path / where
    target.mkdir(parents=True)
    for name in ("p=1", "p=2"):
        (dest / name).mkdir(parents=True, exist_ok=True)
        (dest / name / "q=1").symlink_to(target)
    write_job({0: {"p=1/q=1/a": "x", "p=2/q=1/b": "y", "p=3/q=1/c": "z"}})
    with pytest.raises(LinkedPathError) as caught:
        ray_committer.commit_job(str(dest), "job_1", options=CommitOptions(mode=mode))
    assert f"{dest}/p=1/q=1 | {dest}/p=2/q=1: is a symbolic link" in str(caught.value)
    assert list(target.iterdir()) == []
    assert ray_committer.list_jobs(str(dest))[0].state == "running"
    assert not (dest / "p=3").exists()


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


# A link in the place of another job, or of an attempt of it

PLACES = ("_temporary/job_2", "_temporary/job_2/00", "_temporary/.gone-0123")


def put_away(write_job, dest: Path, archive: Path, place: str) -> Path:
    """Record another job, move it to where somebody keeps it, and put a link in its place."""
    other = write_job({0: {"p=3/c": "z"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2")
    if place.endswith(".gone-0123"):
        shutil.move(other.directory, dest / place)
        Path(other.job_directory).rmdir()
    return link(other, dest, place, archive)


@contextmanager
def watched(path: Path) -> Iterator[list[StoreCall]]:
    """The requests of the block for a path, and for what is below it."""
    calls: list[StoreCall] = []

    def watch(call: StoreCall) -> None:
        if any(one == str(path) or one.startswith(f"{path}/") for one in call.paths):
            calls.append(call)

    with opening(before=watch):
        yield calls


@pytest.mark.parametrize("place", PLACES)
def test_status_and_vacuum_name_a_link_in_the_place_of_a_job_and_look_at_the_others(
    job: JobAttempt, dest: Path, tmp_path: Path, write_job, place: str
):
    path = put_away(write_job, dest, tmp_path / "archive", place)
    for one in (tmp_path / "archive", *dest.rglob("*")):
        os.utime(one, (0, 0), follow_symlinks=False)
    before = content(tmp_path / "archive")
    with watched(path) as calls:
        found = {one.directory: one for one in ray_committer.list_jobs(str(dest))}
        kept = {one.directory: one.reason for one in ray_committer.vacuum_jobs(str(dest))}
    assert calls == []
    named = found[str(path)]
    assert (named.state, named.job_attempt, named.command) == (
        "unknown",
        0 if place.endswith("00") else None,
        None,
    )
    assert named.problem == f"{path}: is a symbolic link, which was not followed"
    assert found[job.directory].state == "running"
    assert (kept[str(path)], kept[job.directory]) == (named.problem, None)
    assert path.is_symlink()
    assert content(tmp_path / "archive") == before


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_and_a_set_up_name_a_link_in_the_place_of_a_job_and_go_on(
    job: JobAttempt, dest: Path, tmp_path: Path, write_job, caplog, place: str
):
    path = put_away(write_job, dest, tmp_path / "archive", place)
    before = content(tmp_path / "archive")
    told = f"{path}: is a symbolic link, which was not followed"
    with watched(path) as calls:
        ray_committer.setup_job(str(dest), "job_3")
        assert told in caplog.text
        report = ray_committer.commit_job(str(dest), "job_1")
    assert calls == []
    (notice,) = [one for one in report.notices if "symbolic link" in one]
    assert notice.startswith(f"{told}; ")
    assert visible_files(dest) == {"p=1/a": "x", "p=2/b": "y"}
    assert path.is_symlink()
    assert content(tmp_path / "archive") == before


def test_a_commit_that_looks_again_and_again_names_a_link_once(
    job: JobAttempt, dest: Path, tmp_path: Path, write_job
):
    """It waits for a job that is at work."""
    put_away(write_job, dest, tmp_path / "archive", PLACES[0])
    other = write_job({0: {"p=1/c": "z"}}, job_id="job_4")
    record = record_of(
        job_id="job_4",
        owner=ALIVE,
        created_milliseconds=time.time_ns() // 1_000_000,
        claim=Claim([str(dest)]),
    )
    bring_to(LocalStore(StoreSpec("file")), Phase.RECORDED, job=other, record=record)
    options = CommitOptions(mode=ConflictMode.OVERWRITE, conflict_wait_seconds=0.1)
    notices: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    with pytest.raises(CommitConflictError, match=r"waited 0\.1 s"):
        ray_committer.commit_job(str(dest), "job_1", options=options, on_event=hear)
    assert len([one for one in notices if "symbolic link" in one]) == 1


@pytest.mark.parametrize("place", PLACES[:2])
def test_without_a_name_no_other_job_answers_for_one_in_whose_place_is_a_link(
    job: JobAttempt, dest: Path, tmp_path: Path, write_job, place: str
):
    path = put_away(write_job, dest, tmp_path / "archive", place)
    assert ray_committer.commit_job(str(dest)).job_id == "job_1"
    for job_id in (None, "job_2"):
        with pytest.raises(LinkedPathError, match=f"{path}: is a symbolic link"):
            ray_committer.commit_job(str(dest), job_id)


def test_behind_a_link_under_the_name_of_hadoops_documentation_no_job_is_looked_for(
    job: JobAttempt, dest: Path, tmp_path: Path
):
    shutil.move(job.job_directory, tmp_path / "archive")
    path = dest / "_temporary/manifest_job_1"
    path.symlink_to(tmp_path / "archive")
    with watched(path) as calls:
        for options in (CommitOptions(), FIRST):
            with pytest.raises(LinkedPathError, match=f"{path}: is a symbolic link"):
                ray_committer.commit_job(str(dest), "job_1", options=options)
    assert calls == []


def test_an_attempt_is_not_committed_beside_a_link_in_the_place_of_another(
    job: JobAttempt, dest: Path, tmp_path: Path
):
    path = Path(job.job_directory, "01")
    (tmp_path / "archive").mkdir()
    path.symlink_to(tmp_path / "archive")
    for options in (CommitOptions(), FIRST):
        with pytest.raises(LinkedPathError, match=f"{path}: is a symbolic link"):
            ray_committer.commit_job(str(dest), "job_1", options=options)
    assert visible_files(dest) == {}
    path.unlink()
    ray_committer.commit_job(str(dest), "job_1")
    assert visible_files(dest) == {"p=1/a": "x", "p=2/b": "y"}


# A link in the place of another destination's `_temporary`, below or above


UNMARKED = CommitOptions(mark_success=False)


def stop_half_way(dest: Path) -> None:
    """A job of one partition, whose commit was recorded and stopped between its two files."""
    partition = f"{dest}/p=1"
    ray_committer.setup_job(partition, "job_2")
    with ray_committer.task_attempt(partition, "job_2", 0) as attempt:
        for name in ("c", "d"):
            Path(attempt.path(name)).write_text(name)
    with opening(before=at("rename", SimulatedCrash(), "/d")), pytest.raises(SimulatedCrash):
        ray_committer.commit_job(partition, "job_2", executor="inline", options=UNMARKED)
    assert visible_files(dest) == {"p=1/c": "c"}


@pytest.mark.parametrize("roots", [(), ("p=1",), ("p=1/q=1",)], ids=["all", "the partition", "below"])
@pytest.mark.parametrize("place", ["_temporary", "_temporary/job_2/00/state"])
def test_an_overwrite_stops_at_a_link_behind_which_a_recorded_job_may_lose_its_files(
    dest: Path, tmp_path: Path, write_job, roots, place: str
):
    write_job({0: {"p=1/q=1/a": "x"}})
    stop_half_way(dest)
    path = dest / "p=1" / place
    shutil.move(path, tmp_path / "archive")
    path.symlink_to(tmp_path / "archive")
    before = content(tmp_path / "archive")
    replaced = tuple(f"{dest}/{root}" for root in roots)
    options = CommitOptions(mode=ConflictMode.OVERWRITE, replaced_roots=replaced)
    with pytest.raises(LinkedPathError, match=f"{path}: is a symbolic link") as caught:
        ray_committer.commit_job(str(dest), "job_1", options=options)
    assert caught.value.exit_code == 1
    assert ray_committer.list_jobs(str(dest))[0].state == "running"
    assert visible_files(dest) == {"p=1/c": "c"}
    assert content(tmp_path / "archive") == before
    path.unlink()
    shutil.move(tmp_path / "archive", path)
    ray_committer.commit_job(f"{dest}/p=1", "job_2", options=UNMARKED)
    assert visible_files(dest) == {"p=1/c": "c", "p=1/d": "d"}
    ray_committer.commit_job(str(dest), "job_1", options=options)
    old = {"p=1/c": "c", "p=1/d": "d"} if roots == ("p=1/q=1",) else {}
    assert visible_files(dest) == {"p=1/q=1/a": "x"} | old


@pytest.mark.parametrize("options", [CommitOptions(), REPLACE], ids=["append", "overwrite"])
@pytest.mark.parametrize("where", ["above", "below"])
def test_a_link_where_a_job_loses_nothing_is_named_and_passed(
    job: JobAttempt, dest: Path, tmp_path: Path, where: str, options: CommitOptions
):
    (tmp_path / "archive").mkdir()
    path = (dest.parent if where == "above" else dest / "p=2") / "_temporary"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "archive")
    replaced = (f"{dest}/p=1",) if options is REPLACE else ()
    report = ray_committer.commit_job(
        str(dest), "job_1", options=replace(options, replaced_roots=replaced)
    )
    (notice,) = [one for one in report.notices if "symbolic link" in one]
    assert notice.startswith(f"{path}: is a symbolic link, which was not followed; ")
    assert visible_files(dest) == {"p=1/a": "x", "p=2/b": "y"}
