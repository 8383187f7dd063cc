"""Whoever asks for JSON gets one document: the result, the times, the exit code, and the error's id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

import ray_committer
from ray_committer import CommitOptions
from ray_committer.table_jobs.table import init_table
from tests.cli import documents
from tests.cli.commands import run

ERROR = {"error_id", "error_class", "error_message", "error_advice"}


def document(result: Result) -> dict[str, Any]:
    """The only thing on standard output, with the exit code that the command had."""
    found = json.loads(result.stdout)
    assert found["exit_code"] == result.exit_code
    started, ended = (datetime.fromisoformat(found[name]) for name in ("started_at", "ended_at"))
    assert started.tzinfo == ended.tzinfo == UTC
    assert started <= ended <= datetime.now(UTC)
    msgspec.convert(found, documents.Failure if ERROR & found.keys() else documents.Document)
    return found


CASES = [
    (["commit", "DEST", "--assume-complete"], documents.Commit),
    (["commit", "DEST", "--dry-run"], documents.Plan),
    (["status", "DEST"], documents.Status),
    (["status", "COMMITTED"], documents.Status),
    (["history", "COMMITTED", "--summary-directory", "COMMITTED/_reports"], documents.History),
    (["show", "COMMITTED"], documents.Show),
    (["validate", "COMMITTED"], documents.Validate),
    (["abort", "DEST"], documents.Abort),
    (["abort", "DEST", "--dry-run"], documents.Abort),
    (["vacuum", "DEST"], documents.Vacuum),
    (["table", "init", "COMMITTED"], documents.TableInit),
    (["table", "log", "LOG"], documents.TableLog),
    (["table", "scan", "LOG"], documents.TableScan),
    (["table", "files", "LOG"], documents.TableFiles),
    (["table", "changes", "LOG", "--since", "2"], documents.TableChanges),
    (["show", "LOG/a"], documents.ShowData),
    (["estimate", "gs", "20"], documents.Estimate),
    (["explain"], documents.Explain),
    (["explain", "bad-path"], documents.ExplainOne),
    (["doctor", "DEST"], documents.Doctor),
    (["spark-conf"], documents.SparkConf),
]


def committed(destination: Path, *, has_log: bool) -> None:
    destination.mkdir()
    if has_log:
        init_table(str(destination))
    ray_committer.setup_job(str(destination), "job_1")
    with ray_committer.task_attempt(str(destination), "job_1", 0) as attempt:
        Path(attempt.path("a")).write_text("x")
    options = CommitOptions(summary_directory=f"{destination}/_reports")
    ray_committer.commit_job(str(destination), "job_1", options=options)


@pytest.mark.parametrize(("words", "kind"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_a_result_has_its_fields_and_the_times_and_the_exit_code(
    write_job, tmp_path: Path, words: list[str], kind: type[documents.Document]
):
    write_job({0: {"a": "x"}})
    committed(tmp_path / "committed", has_log=False)
    committed(tmp_path / "log", has_log=True)
    places = {"DEST": "table", "COMMITTED": "committed", "LOG": "log"}
    for name, directory in places.items():
        words = [word.replace(name, str(tmp_path / directory)) for word in words]
    found = document(run(*words, "--output", "json"))
    assert found["exit_code"] == 0
    msgspec.convert(found, kind)
    assert not ERROR & found.keys()


JSON = ("--output", "json")


@pytest.mark.parametrize(
    ("words", "error_id", "error_class"),
    [
        (["status", "/no/such", *JSON], "RC-job-not-found", "JobNotFoundError"),
        (["status", "/no/such", "--output=json"], "RC-job-not-found", "JobNotFoundError"),
        (["status", "/no/such", "RAY_COMMITTER_OUTPUT=json"], "RC-job-not-found", "JobNotFoundError"),
        (["status", *JSON], "RC-bad-setting", "MissingParameter"),
        (["status", "/x", "--exct", *JSON], "RC-bad-setting", "NoSuchOption"),
        (["status", "/x", "--exct", "RAY_COMMITTER_OUTPUT=json"], "RC-bad-setting", "NoSuchOption"),
        (["status", "/x", "/y", *JSON], "RC-bad-setting", "UsageError"),
        (["commit", "/x", "--threads", "many", *JSON], "RC-bad-setting", "BadParameter"),
        (["comit", "/x", *JSON], "RC-bad-setting", "UsageError"),
        (["table", "lg", "/x", *JSON], "RC-bad-setting", None),  # its name depends on click's version
        (["--fast", "status", "/x", *JSON], "RC-bad-setting", "NoSuchOption"),
        (["doctor", *JSON], "RC-bad-setting", "MissingParameter"),
        (["commit", "/x", "RAY_COMMITTER_WORKER=3", *JSON], "RC-bad-setting", "SettingsError"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_fails_is_one_document_and_three_lines(
    words: list[str], error_id: str, error_class: str | None
):
    environment = dict(word.split("=") for word in words if word.startswith("RAY_"))
    result = run(*(word for word in words if not word.startswith("RAY_")), **environment)
    found = document(result)
    assert found["error_id"] == error_id
    assert found["error_class"] == (error_class or found["error_class"])
    assert result.stderr.splitlines() == [
        f"ray-committer: {found['error_message']}",
        f"  -> {found['error_advice']}",
        f"  see: ray-committer explain {error_id}",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["status", "/no/such"],
        ["status", "/no/such", "--output", "text"],
        ["status", "/x", "--exct", "--output", "json", "--output", "text"],
        ["partitions", "/no/such", "--table", "t"],
    ],
)
def test_who_asks_for_text_gets_no_document(words: list[str]):
    variable = {"RAY_COMMITTER_OUTPUT": "json"} if len(words) > 2 else {}
    result = run(*words, **variable)
    assert (result.exit_code, result.stdout) == (2 if "--exct" in words else 1, "")


def test_a_commit_that_fails_has_its_report_and_the_error_in_one_document(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    (dest / "a").write_text("another")
    found = document(run("commit", str(dest), "--assume-complete", *JSON))
    assert (found["outcome"], found["error_id"]) == ("failed", "RC-commit-conflict")
    assert found["error_message"] in found["error"]
    assert found["exit_code"] == 4


def test_what_found_a_difference_is_no_error_but_has_its_exit_code(tmp_path: Path):
    found = document(run("doctor", "oss://bucket/table", *JSON))
    assert (found["failed"], found["exit_code"]) == (True, 1)
    init_table(str(tmp_path))
    (tmp_path / "foreign").touch()
    found = document(run("table", "scan", str(tmp_path), *JSON))
    assert (found["agrees"], found["exit_code"]) == (False, 5)


@pytest.mark.parametrize("words", [["--help"], ["status", "--help", *JSON], ["--version"]])
def test_help_stays_text(words: list[str]):
    result = run(*words, RAY_COMMITTER_OUTPUT="json")
    assert result.exit_code == 0
    assert "exit_code" not in result.stdout


@pytest.mark.parametrize("words", [[], ["table"]])
def test_a_group_without_a_command_shows_its_help(words: list[str]):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ray-committer")
    assert "explain" not in result.stderr.splitlines()[-1]


def test_the_answer_to_a_driver_stays_one_line():
    result = run("spark-job", "setup", RAY_COMMITTER_OUTPUT="json")
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert json.loads(line).keys() == {"error"}


@pytest.mark.parametrize(
    ("command", "code", "last"),
    [
        (
            "abort",
            4,
            "the report could not be printed (No space left on device): RC-commit-record-exists",
        ),
        ("status", 1, "see: ray-committer explain RC-store-failed"),
    ],
)
def test_a_document_that_cannot_be_printed_changes_no_exit_code_of_a_failure(
    write_job, dest: Path, command: str, code: int, last: str
):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    words = [sys.executable, "-m", "ray_committer.cli", command, str(dest), *JSON]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1].endswith(last)) == (code, True)
    assert "Traceback" not in done.stderr


def ended(words: list[Any], **streams: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ray_committer.cli", *words]
    return subprocess.run(command, **{"stdout": subprocess.PIPE, **streams}, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("output", [(), JSON], ids=["text", "json"])
@pytest.mark.parametrize("code", [0, 4])
def test_messages_that_nobody_can_read_change_no_exit_code(
    write_job, dest: Path, output: tuple[str, ...], code: int
):
    write_job({0: {"a": "x"}})
    if code:
        (dest / "a").write_text("another")
    with open("/dev/full", "wb") as full:
        done = ended(["commit", dest, "--assume-complete", *output], stderr=full)
    assert done.returncode == code
    assert not output or json.loads(done.stdout)["exit_code"] == code


@pytest.mark.slow
def test_a_commit_without_standard_streams_ends_like_any_other(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    command = [sys.executable, "-m", "ray_committer.cli", "commit", str(dest), "--assume-complete"]
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
    assert subprocess.run(closed, check=False).returncode == 0
    assert (dest / "_SUCCESS").exists()


@pytest.mark.slow
def test_a_name_that_is_not_utf_8_has_its_document(tmp_path: Path):
    done = ended(["status", os.fsencode(tmp_path) + b"/\xff", *JSON], stderr=subprocess.PIPE)
    assert (json.loads(done.stdout)["exit_code"], done.returncode) == (1, 1)
    assert b"Traceback" not in done.stderr


def test_a_name_that_is_not_utf_8_is_escaped(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    (dest / "_temporary" / os.fsdecode(b"job_\xff") / "00").mkdir(parents=True)
    found = document(run("status", str(dest), *JSON))
    assert [os.fsencode(job["job_id"]) for job in found["jobs"]] == [b"job_1", b"job_\xff"]
