"""What a Spark driver asks the handler for, without a Spark: set-up, commit, abort, and the answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions
from ray_committer.cli.main import main
from ray_committer.errors import PreflightError
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.manifest import STAMP
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.spark.callback import callback
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.handler import CommitHandler
from ray_committer.spark.job_settings import HandlerSettings
from ray_committer.stores.base import StoreOperations
from tests.jar_requests import request, tasks_of

Ask = Callable[[str, str], dict[str, Any]]


def by_object(action: str, text: str) -> dict[str, Any]:
    """As Py4J asks."""
    handler = CommitHandler(HandlerSettings(executor="inline"))
    answer: dict[str, Any] = json.loads(getattr(handler, f"{action}Job")(text))
    return answer


def by_command(action: str, text: str) -> dict[str, Any]:
    """As a child process is asked."""
    result = CliRunner().invoke(main, ["spark-job", action], input=text)
    answer: dict[str, Any] = json.loads(result.stdout)
    assert (result.exit_code == 0) == ("error" not in answer)
    return answer


@pytest.fixture(params=[by_object, by_command])
def ask(request: pytest.FixtureRequest) -> Ask:
    asked: Ask = request.param
    return asked


def test_a_set_up_answers_the_stamp_that_manifests_must_bear(
    ask: Ask, dest: Path, store: StoreOperations
):
    answer = ask("setup", request(dest))
    seen = read_state(store, new_job_attempt(str(dest), "job_1", 0))
    assert seen is not None
    assert answer == {"stamp": seen.state.stamp}
    with ray_committer.task_attempt(str(dest), "job_1", 0):
        pass
    (manifest,) = dest.glob("_temporary/job_1/00/manifests/*.json")
    assert json.loads(manifest.read_text())["extraData"] == {STAMP: answer["stamp"]}


def test_an_abort_removes_the_job_and_a_second_one_finds_nothing(ask: Ask, dest: Path):
    ask("setup", request(dest))
    for _ in range(2):
        assert ask("abort", request(dest)) == {}
        assert not (dest / "_temporary").exists()


def test_a_recorded_job_is_kept_with_the_command_that_finishes_it(ask: Ask, dest: Path, write_job, tree):
    write_job({0: {"a": "x"}})
    options = CommitOptions(expected_tasks=1)
    ray_committer.record_job(str(dest), "job_1", executor="inline", options=options)
    answer = ask("abort", request(dest))
    assert answer.keys() == {"kept"}
    assert f"ray-committer commit {dest} --job-id job_1" in answer["kept"]
    ray_committer.commit_job(str(dest), "job_1", executor="inline")
    assert tree() == {"a": "x"}


def test_an_abort_that_fails_says_so(ask: Ask, dest: Path):
    ask("setup", request(dest))
    (dest / "_temporary/job_1/00/state").rename(dest / "elsewhere")
    (dest / "_temporary/job_1/00/state").symlink_to(dest / "elsewhere")
    assert "is a symbolic link" in ask("abort", request(dest))["error"]
    assert list((dest / "elsewhere").iterdir())


def test_what_a_commit_failed_of_stays_known_when_spark_aborts(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    counted = [{**task, "sha256": "0" * 64} for task in tasks_of(dest)]
    handler = CommitHandler(HandlerSettings(executor="inline"))
    assert "error" in json.loads(handler.commitJob(request(dest, tasks=counted)))
    assert json.loads(handler.abortJob(request(dest))) == {}
    assert isinstance(handler.last_error, PreflightError)
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PreflightError("/t: is wrong", "fix it"), "PreflightError: /t: is wrong; fix it"),
        (PermissionError(13, "denied", "/t"), "PermissionError: [Errno 13] denied: '/t'"),
        (OSError("without a path"), None),
        (KeyError("a bug"), None),
    ],
)
def test_a_failure_that_can_be_expected_is_one_line_in_the_log_and_a_bug_has_its_traceback(
    dest: Path, caplog: pytest.LogCaptureFixture, error: Exception, line: str | None
):
    def fail(_: str) -> HadoopConf:
        raise error

    handler = CommitHandler(HandlerSettings(executor="inline", configuration=fail))
    caplog.set_level(logging.DEBUG, "ray_committer.spark.handler")
    assert "error" in json.loads(handler.setupJob(request(dest)))
    first, *more = caplog.records
    assert first.levelno == logging.WARNING
    assert bool(first.exc_info) is (line is None)
    assert line is None or first.getMessage() == f"Spark's request failed: {line}"
    assert [one.levelno for one in more] == ([] if line is None else [logging.DEBUG])
    assert all(one.exc_info for one in more)


def test_an_abort_without_the_secret_does_nothing(dest: Path):
    handler = CommitHandler(HandlerSettings(executor="inline"))
    python: Any = callback(handler, "the secret")
    assert json.loads(python.setupJob("the secret", request(dest))).keys() == {"stamp"}
    assert "without the secret" in python.abortJob("guessed", request(dest))
    assert (dest / "_temporary/job_1/00/state").exists()
    assert python.abortJob("the secret", request(dest)) == "{}"
    assert not (dest / "_temporary").exists()
