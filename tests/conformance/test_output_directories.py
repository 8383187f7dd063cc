"""Making the directories of the output: each once, whatever is there before, and again for nothing.

Source: Hadoop TestCreateOutputDirectoriesStage, by scenario.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import CommitConflictError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.testing import SimulatedCrash, StoreCall, WrappedStore, run_commit

LEAVES = [f"a={a}/b={b}/c={c}" for a, b, c in product(range(4), repeat=3)]


def made(store, job: JobAttempt, options: CommitOptions | None = None) -> Counter[str]:
    """Commit; how often each directory was asked for, by its path below the destination."""
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job, options)
    asked = [call.paths[0] for call in calls if call.operation == "mkdirs"]
    return Counter(path.removeprefix(f"{job.destination}/") for path in asked)


def test_directories_that_two_tasks_name_are_made_once_each(store, write_job):
    directories = [f"p={n}" for n in range(8)]
    job = write_job({task: {f"{path}/f{task}": "x" for path in directories} for task in (0, 1)})
    assert made(store, job) == Counter(directories)


def test_only_leaves_of_a_tree_are_asked_for_in_whatever_order_they_are_named(store, write_job, dest):
    shuffled = random.Random(7).sample(LEAVES, len(LEAVES))
    job = write_job(
        {task: {f"{path}/f": "x" for path in shuffled[task * 16 : task * 16 + 16]} for task in range(4)}
    )
    assert made(store, job) == Counter(LEAVES)
    assert all((dest / leaf / "f").is_file() for leaf in LEAVES)


def test_a_run_after_the_directories_were_made_makes_no_others(store, write_job, dest: Path, tree):
    files = {f"{path}/f": "x" for path in LEAVES}
    job = write_job({0: files})

    def crash(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[1].endswith("/f"):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, before=crash), job)
    there = {path for path in dest.rglob("*") if path.is_dir()}
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    assert {path for path in dest.rglob("*") if path.is_dir()} == there
    assert tree() == files


@pytest.fixture
def dirty(write_job, dest: Path) -> JobAttempt:
    """A tree of which a parent is a file, an inner directory exists, and a leaf is a file."""
    job = write_job({0: {f"{path}/f": "x" for path in LEAVES}})
    (dest / "a=0").write_text("a parent")
    (dest / "a=1" / "b=0").mkdir(parents=True)
    (dest / "a=2" / "b=2").mkdir(parents=True)
    (dest / "a=2" / "b=2" / "c=2").write_text("a leaf")
    return job


def test_a_dirty_tree_is_refused_by_name_and_kept(store, dirty, dest: Path):
    with pytest.raises(CommitConflictError, match=r"a=0: is a file where the job needs a directory"):
        run_commit(store, dirty)
    assert (dest / "a=0").read_text() == "a parent"
    assert (dest / "a=2" / "b=2" / "c=2").read_text() == "a leaf"


def say_of_directories(job: JobAttempt, status: int) -> None:
    """Let the manifest claim this of each directory (2: is a file, 3: is a directory)."""
    path = Path(job.manifest("task_1_m_000000"))
    content = json.loads(path.read_bytes())
    for directory in content["directories"]:
        directory["t"] = status
    path.write_text(json.dumps(content))


def test_a_directory_that_was_there_at_task_commit_is_made_if_it_is_gone(store, write_job, tree):
    job = write_job({0: {"p=1/q=1/f": "x"}})
    say_of_directories(job, 3)
    assert made(store, job) == Counter(["p=1/q=1"])
    assert tree() == {"p=1/q=1/f": "x"}


def test_a_directory_that_was_a_file_at_task_commit_is_not_deleted(store, write_job, dest: Path, tree):
    job = write_job({0: {"p=1/f": "x"}})
    say_of_directories(job, 2)
    (dest / "p=1").mkdir()
    (dest / "p=1" / "old").write_text("old")
    run_commit(store, job)
    assert tree() == {"p=1/f": "x", "p=1/old": "old"}
