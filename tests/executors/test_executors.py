"""One suite for every executor: the same commits, faults and promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitConflictError,
    ManifestError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.events import Event, FilesRenamed, StageEnded
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from tests.threads import running_threads

RAY = pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.xdist_group("ray")])


@pytest.fixture(scope="module")
def pool(ray_cluster: None) -> Iterator[CommitPool]:
    with ray_committer.commit_pool(CommitOptions(workers=2)) as opened:
        yield opened


@pytest.fixture(params=["inline", "threads", RAY])
def executor(request: pytest.FixtureRequest) -> str | CommitPool:
    return request.getfixturevalue("pool") if request.param == "ray" else request.param


def many(tasks: int, files: int) -> dict[int, dict[str, str]]:
    return {
        task: {f"p={n % 7}/q={n % 3}/f-{task}-{n}": f"{task}:{n}" for n in range(files)}
        for task in range(tasks)
    }


def contents(tasks: dict[int, dict[str, str]]) -> dict[str, str]:
    return {name: text for files in tasks.values() for name, text in files.items()}


def test_the_suite_knows_every_executor():
    assert set(get_args(ExecutorName)) == {"inline", "threads", "ray", "auto"}


@pytest.mark.usefixtures("small_shards")
def test_every_file_is_moved_exactly_once(executor, write_job, dest: Path, tree):
    tasks = many(12, 60)
    write_job(tasks)
    events: list[Event] = []
    report = ray_committer.commit_job(str(dest), executor=executor, on_event=events.append)
    assert report.outcome is Outcome.COMMITTED
    name = executor if isinstance(executor, str) else "ray"
    assert (report.executor, report.moved, report.files) == (name, 720, 720)
    assert report.validated == 720
    assert report.directories == 21
    assert tree() == contents(tasks)
    assert not (dest / "_temporary").exists()
    renamed = [event for event in events if isinstance(event, FilesRenamed)]
    assert renamed[-1] == FilesRenamed(720, 720, bytes_done=2880, bytes_total=2880)
    assert len(renamed) > 10  # progress comes shard by shard
    assert all(event.error is None for event in events if isinstance(event, StageEnded))


def test_an_interrupted_commit_is_finished(executor, write_job, dest: Path, tree):
    tasks = many(4, 50)
    job = write_job(tasks)
    ray_committer.record_job(str(dest), executor=executor)
    (frozen,) = Path(job.directory).glob("frozen-tasks-*")
    for source in sorted(frozen.rglob("f-*"))[:77]:
        relative = Path(*source.relative_to(frozen).parts[1:])
        (dest / relative).parent.mkdir(parents=True, exist_ok=True)
        source.rename(dest / relative)
    report = ray_committer.commit_job(str(dest), executor=executor)
    assert report.resumed
    assert (report.moved, report.proved) == (123, {"modification time and size": 77})
    assert tree() == contents(tasks)


def test_old_data_is_replaced(executor, write_job, dest: Path, tree):
    old = {f"p={n}/old": "old" for n in range(5)} | {"p=1/q=1/f-0-1": "same name"}
    for name, text in old.items():
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        (dest / name).write_text(text)
    tasks = many(3, 10)
    write_job(tasks)
    options = CommitOptions(mode=ConflictMode.OVERWRITE)
    assert ray_committer.commit_job(str(dest), executor=executor, options=options).replaced == 5
    assert tree() == contents(tasks)


def test_partitions_are_found_and_replaced(executor, write_job, dest: Path, tree):
    for name in ("p=1/q=1/old", "p=1/q=9/old"):
        (dest / name).parent.mkdir(parents=True)
        (dest / name).write_text("old")
    tasks = many(3, 10)
    write_job(tasks)
    options = CommitOptions(mode=ConflictMode.ERROR_PARTITIONS)
    with pytest.raises(CommitConflictError, match="p=1/q=1: holds data already"):
        ray_committer.commit_job(str(dest), executor=executor, options=options)
    options = CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS)
    assert ray_committer.commit_job(str(dest), executor=executor, options=options).replaced == 1
    assert tree() == {**contents(tasks), "p=1/q=9/old": "old"}


@pytest.mark.parametrize("mode", ["error_partitions", "overwrite_partitions"])
def test_a_file_in_no_partition_is_named(executor, write_job, dest: Path, tree, mode: str):
    write_job({0: {"p=1/a": "x"}, 1: {"b": "y"}})
    options = CommitOptions(mode=ConflictMode(mode))
    with pytest.raises(PreflightError, match="/b: is in no partition"):
        ray_committer.commit_job(str(dest), executor=executor, options=options)
    assert tree() == {}


def test_an_error_arrives_as_itself_and_nothing_is_changed(executor, write_job, dest: Path, tree):
    job = write_job(many(6, 3))
    path = Path(job.manifest("task_1_m_000004"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ManifestError) as caught:
        ray_committer.commit_job(str(dest), executor=executor)
    assert str(path) in str(caught.value)
    assert tree() == {}
    assert ray_committer.list_jobs(str(dest))[0].state == "running"


def test_duplicates_across_tasks_are_found(executor, write_job, dest: Path, tree):
    write_job({0: {"a": "x"}, 1: {"b": "y"}, 2: {"a": "z"}})
    with pytest.raises(PreflightError, match=r"attempt_1_m_000000_0.*attempt_1_m_000002_0"):
        ray_committer.commit_job(str(dest), executor=executor)
    assert tree() == {}


@pytest.mark.usefixtures("small_shards")
def test_a_conflict_stops_new_shards_and_keeps_everything(executor, write_job, dest: Path, tree):
    tasks = many(4, 100)
    job = write_job(tasks)
    blocked = dest / "p=0" / "q=0" / "f-0-0"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("foreign")
    with pytest.raises(RayCommitterError) as caught:
        ray_committer.commit_job(
            str(dest), executor=executor, options=CommitOptions(workers=2, threads=2)
        )
    assert caught.value.exit_code == 4
    assert blocked.read_text() == "foreign"
    moved = len(tree()) - 1
    assert moved < 300
    (frozen,) = Path(job.directory).glob("frozen-tasks-*")
    assert len(list(frozen.rglob("f-*"))) == 400 - moved
    blocked.unlink()
    ray_committer.commit_job(str(dest), executor=executor)
    assert tree() == contents(tasks)


def test_a_job_without_files_is_a_success(executor, write_job, dest: Path):
    write_job({0: {}, 1: {}})
    report = ray_committer.commit_job(str(dest), executor=executor)
    assert (report.files, report.outcome) == (0, Outcome.COMMITTED)
    assert (dest / "_SUCCESS").is_file()


def test_empty_directories_are_made(executor, write_job, dest: Path, store):
    job = write_job({0: {"a": "x"}})
    Path(job.task_attempt("attempt_1_m_000001_0")).mkdir()
    with ray_committer.task_attempt(str(dest), "job_1", 2) as attempt:
        Path(attempt.path("empty/deeper/x")).parent.joinpath("leaf").mkdir()
    ray_committer.commit_job(str(dest), executor=executor)
    assert (dest / "empty" / "deeper" / "leaf").is_dir()


def test_an_unknown_executor_is_refused(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    with pytest.raises(ValueError, match="auto, inline, threads or ray"):
        ray_committer.commit_job(str(dest), executor="mapreduce")


def test_auto_takes_threads_for_local_files_and_says_why(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    report = ray_committer.commit_job(str(dest))
    assert report.executor == "threads"
    assert "local files" in report.executor_reason


@pytest.mark.parametrize("fails", [False, True])
def test_no_thread_outlives_a_commit(write_job, dest: Path, fails: bool):
    before = running_threads()
    write_job({0: {"p=1/a": "x"}, 1: {"p=1/b": "y"}})
    if fails:
        (dest / "p=1").write_text("in the way")
    with pytest.raises(CommitConflictError) if fails else nullcontext():
        ray_committer.commit_job(str(dest), executor="threads")
    assert running_threads() - before == set()
