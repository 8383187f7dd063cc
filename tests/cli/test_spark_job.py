"""``ray-committer spark-job``, as the jar calls it: JSON in, JSON out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ray_committer
from ray_committer.cli.main import main
from ray_committer.errors import IncompleteJobError
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.spark.driver import JAR_PROTOCOL_VERSION as VERSION
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.jar_requests import request, tasks_of


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["spark-job", *arguments], input=text)


def test_a_job_is_set_up_and_committed(dest: Path, tree):
    answer = json.loads(run("setup", text=request(dest)).stdout)
    seen = read_state(LocalStore(StoreSpec("file")), new_job_attempt(str(dest), "job_1", 0))
    assert seen is not None
    assert answer == {"stamp": seen.state.stamp}
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("p=1/a")).write_text("x")
    commit = request(dest, tasks=tasks_of(dest), conf={"spark.ray_committer.threads": "2"})
    result = run("commit", text=commit)
    assert (result.exit_code, result.stdout) == (0, "{}\n")
    assert "job job_1 is committed" in result.stderr
    assert tree() == {"p=1/a": "x"}
    assert not (dest / "_temporary").exists()


def test_an_error_is_answered_with_its_exit_code_and_the_report(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    (dest / "a").write_text("in the way")
    result = run("commit", text=request(dest, tasks=tasks_of(dest)))
    assert result.exit_code == 4
    assert f"{dest}/a" in json.loads(result.stdout)["error"]
    assert "is NOT committed" in result.stderr


def test_a_task_that_the_driver_does_not_name_is_not_committed(dest: Path, write_job, tree):
    write_job({0: {"a": "x"}, 1: {"b": "y"}})
    result = run("commit", text=request(dest, tasks=tasks_of(dest)[:1]))
    assert result.exit_code == 1
    assert tree() == {}


def test_an_attempt_that_the_driver_does_not_count_is_not_committed(dest: Path, write_job, tree):
    """Another attempt of the task has saved its manifest since, under the same name."""
    write_job({0: {"a": "x"}})
    counted = [{**task, "sha256": "0" * 64} for task in tasks_of(dest)]
    result = run("commit", text=request(dest, tasks=counted))
    assert result.exit_code == 1
    assert "is not what the successful task attempt saved" in json.loads(result.stdout)["error"]
    assert tree() == {}


def test_of_partitions_with_odd_names_those_are_replaced_that_the_driver_names(dest: Path, tree):
    """What Spark escapes is the name itself: it must not be taken for an escape of the URL."""
    for name in ("p=a%3Ab", "p=a:b"):
        (dest / name).mkdir(parents=True)
        (dest / name / "old").write_text("old")
    overwrite = {"dynamicPartitionOverwrite": True}
    assert run("setup", text=request(dest, **overwrite)).exit_code == 0
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("p=a%3Ab/new")).write_text("new")
    commit = request(dest, tasks=tasks_of(dest), partitionPaths=["p=a%3Ab"], **overwrite)
    assert run("commit", text=commit).exit_code == 0
    assert tree() == {"p=a%3Ab/new": "new", "p=a:b/old": "old"}


def with_setting(name: str, value: str) -> str:
    return json.dumps({"version": VERSION, "conf": {f"spark.ray_committer.{name}": value}})


@pytest.mark.parametrize("whole", [True, False], ids=["of the table", "of partitions"])
def test_an_overwrite_whose_driver_died_is_not_committed_as_an_append(dest: Path, tree, whole: bool):
    dest.mkdir()
    (dest / "old").write_text("old")
    replaced = {"replacePaths": [dest.as_uri()]} if whole else {"dynamicPartitionOverwrite": True}
    assert run("setup", text=request(dest, **replaced)).exit_code == 0
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("new")).write_text("new")
    with pytest.raises(IncompleteJobError, match="this job was to replace data"):
        ray_committer.commit_job(str(dest))
    assert tree() == {"old": "old"}


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("", "the request does not come from a Spark driver", 1),
        ("{}", "missing required field `version`", 1),
        ('{"version": 1}', f"uses protocol version 1, but this ray-committer uses {VERSION}", 1),
        (with_setting("threads", "x"), "must be a whole number", 2),
        (with_setting("executor", "x"), "executor=x: is not one of", 2),
        (with_setting("thread", "2"), "thread: is not an option", 2),
    ],
)
def test_what_is_wrong_with_a_request_is_answered(text: str, error: str, code: int):
    result = run("commit", text=text)
    assert result.exit_code == code
    assert error in json.loads(result.stdout)["error"]


def test_nobody_who_reads_the_progress_does_not_stop_a_commit(dest: Path, write_job, tree):
    write_job({0: {"a": "x"}})
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        command = [sys.executable, "-m", "ray_committer.cli", "spark-job", "commit"]
        text = request(dest, tasks=tasks_of(dest)).encode()
        subprocess.run(command, input=text, stdout=nobody, stderr=nobody, check=False, timeout=60)
    assert tree() == {"a": "x"}
    assert not (dest / "_temporary").exists()
