"""``status --watch``: it shows each look, survives errors between looks, and ends when all is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import ray_committer
from ray_committer.cli.status import status, watch_jobs
from ray_committer.errors import StoreRefusedError
from ray_committer.jobs.destination_status import DestinationStatus, destination_status
from tests.cli.commands import TERMINAL, run

Look = Callable[[], DestinationStatus]


def watched(dest: Path, *looks: Look | BaseException, output: str = "text") -> Result:
    """What is printed if these are the looks, or their errors; one look too many fails."""
    left: Iterator[Look | BaseException] = iter(looks)

    def look() -> DestinationStatus:
        one = next(left, SystemExit("one look too many"))
        if isinstance(one, BaseException):
            raise one
        return one()

    @click.command()
    def command() -> None:
        watch_jobs(str(dest), look, every=0.01, output=output)

    result = CliRunner(env=TERMINAL).invoke(command, [])
    assert list(left) == []
    return result


@pytest.fixture
def job(write_job, dest: Path) -> Path:
    write_job({0: {"a": "x"}})
    return dest


def seen(dest: Path) -> Look:
    return lambda: destination_status(str(dest))


def ended(dest: Path) -> Look:
    def look() -> DestinationStatus:
        ray_committer.commit_job(str(dest), executor="inline")
        return destination_status(str(dest))

    return look


def test_it_goes_on_until_no_job_is_left(job: Path):
    result = watched(job, seen(job), seen(job), ended(job))
    assert result.exit_code == 0
    blocks = result.stdout.strip().split("\n\n")
    assert [f"{job}: " in block and " UTC, every 0 s\n" in block for block in blocks] == [True] * 3
    assert [": committed; no jobs" in block for block in blocks] == [False, False, True]


def test_a_quiet_destination_is_shown_once(dest: Path):
    dest.mkdir()
    result = watched(dest, seen(dest))
    assert (result.exit_code, result.stdout.count(f"{dest}: empty; no jobs")) == (0, 1)


@pytest.mark.parametrize("error", [StoreRefusedError("s: is down", "wait"), OSError(5, "bad", "f")])
def test_an_error_between_two_looks_is_shown_and_the_next_look_follows(job: Path, error: Exception):
    result = watched(job, seen(job), error, ended(job))
    assert result.exit_code == 0
    assert "not seen: " in result.stdout
    assert "  -> " in result.stdout
    assert ": committed; no jobs" in result.stdout


def test_an_error_of_the_first_look_ends_it(job: Path):
    error = StoreRefusedError("s: is down", "wait")
    assert watched(job, error).exception is error


def test_a_bug_is_not_hidden(job: Path):
    error = ZeroDivisionError()
    assert watched(job, seen(job), error).exception is error


def test_a_commit_that_was_interrupted_ends_it_with_exit_code_3(job: Path):
    def interrupted() -> DestinationStatus:
        ray_committer.record_job(str(job), executor="inline")
        return destination_status(str(job))

    result = watched(job, seen(job), interrupted)
    assert result.exit_code == 3
    assert "finish it: ray-committer commit" in result.stdout


def test_a_job_whose_state_is_unknown_ends_it_with_exit_code_3(job: Path):
    (token,) = (job / "_temporary/job_1/00/state").glob("*.state")
    token.rename(token.with_name("strange.state"))
    assert watched(job, seen(job)).exit_code == 3


def test_ctrl_c_ends_it_quietly(job: Path):
    result = watched(job, seen(job), KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (3, "")


def test_json_is_a_line_per_look(job: Path):
    result = watched(job, seen(job), OSError(5, "bad", "f"), ended(job), output="json")
    first, error, last = map(json.loads, result.stdout.splitlines())
    assert ([one["state"] for one in first["jobs"]], last["jobs"]) == (["running"], [])
    assert (error["error_message"], error["error_id"]) == ("f: bad", "RC-store-failed")


@pytest.mark.parametrize(
    ("words", "every"),
    [
        (["--watch", "DEST"], 5),
        (["DEST", "--watch"], 5),
        (["--watch", "2s", "DEST"], 2),
        (["DEST", "--watch", "1m"], 60),
        (["DEST", "--watch", "--exact"], 5),
        (["DEST", "--watch=3"], 3),
    ],
)
def test_the_time_can_be_left_out_wherever_the_option_is(words: list[str], every: float):
    parsed = status.make_context("status", [*words]).params
    assert (parsed["destination"], parsed["watch"]) == ("DEST", every)


def test_a_time_that_is_too_short_is_refused(dest: Path):
    result = run("status", str(dest), "--watch", "0.1")
    assert (result.exit_code, "must be at least 1 seconds" in result.stderr) == (2, True)


@pytest.mark.slow
def test_a_process_ends_on_ctrl_c_without_a_word(job: Path):
    command = [sys.executable, "-m", "ray_committer.cli", "status", str(job), "--watch", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (3, b"")
