"""The events of a commit in a file, a line each."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ray_committer
from ray_committer.events import Event, FilesRenamed, Notice, StageStarted
from ray_committer.report.event_log import event_fields, event_log, event_name
from ray_committer.version import __version__
from tests.threads import at_once

COMMAND = [sys.executable, "-m", "ray_committer.cli", "commit"]


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_of_a_commit_is_a_line(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "yy"}})
    events: list[Event] = []
    path = tmp_path / "events.jsonl"
    before = datetime.now(UTC)
    with event_log(path) as log:
        ray_committer.commit_job(str(dest), on_event=lambda event: (events.append(event), log(event)))
    opened, *lines = read(path)
    assert opened["event"] == "log_opened"
    assert (opened["format"], opened["ray_committer"]) == (1, __version__)
    common = ("time", "since_start_seconds")
    assert [{k: v for k, v in line.items() if k not in common} for line in lines] == [
        event_fields(event) for event in events
    ]
    started = [line["stage"] for line in lines if line["event"] == "stage_started"]
    outer = ["job_stage_find_job", "committer_commit_job", "job_stage_load_manifests"]
    assert started[:3] == outer
    assert lines[-1]["stage"] == "committer_commit_job"
    renamed = [line for line in lines if line["event"] == "files_renamed"]
    assert [renamed[-1][key] for key in ("done", "total", "bytes_done", "bytes_total")] == [2, 2, 3, 3]
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert before - timedelta(seconds=1) < times[0] <= times[-1] <= datetime.now(UTC)
    assert all(line["time"].endswith("Z") for line in lines)
    seconds = [line["since_start_seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] < 60


def test_a_line_is_there_when_its_event_has_happened_and_a_file_is_appended_to(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    for run in (1, 2):
        with event_log(path) as log:
            for number in range(3):
                log(Notice(f"run {run} line {number}\nof two lines"))
                assert read(path)[-1]["text"] == f"run {run} line {number}\nof two lines"
    assert [line["event"] for line in read(path)] == ["log_opened", *["notice"] * 3] * 2


def all_events(kind: type[Event] = Event) -> list[type[Event]]:
    return [found for below in kind.__subclasses__() for found in (below, *all_events(below))]


@pytest.mark.parametrize("kind", all_events())
def test_no_event_has_a_field_that_every_line_has(kind: type[Event]):
    common = {"time", "since_start_seconds", "event"}
    assert not common & {field.name for field in fields(kind)}


def test_every_event_and_field_is_described():
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    rows = {row.split("|")[1].strip(" `"): row for row in page.splitlines() if row.startswith("| `")}
    for kind in all_events():
        row = rows[event_name(kind)]
        for field in fields(kind):
            assert f"`{field.name}`" in row, (event_name(kind), field.name)
    assert "log_opened" in rows


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("missing/events.jsonl", "No such file or directory"),
        ("table", "Is a directory"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_clear_line_before_the_commit(
    write_job, dest: Path, tmp_path: Path, path: str, what: str
):
    write_job({0: {"a": "x"}})
    result = subprocess.run(
        [*COMMAND, str(dest), "--assume-complete", "--events", path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    (line, advice, _more) = result.stderr.splitlines()  # no traceback, and no stage of a commit
    assert line.startswith(
        f"ray-committer: {path}: the events cannot be written there ({what}), and nothing was changed"
    )
    assert "choose a file in a directory that exists and is writable" in advice
    assert ray_committer.list_jobs(str(dest))[0].state == "running"


def test_a_disk_that_fills_up_is_said_once_and_does_not_stop_the_commit(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    told: list[str] = []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
    try:
        with event_log(path, on_failure=told.append) as log:
            for _ in range(20):
                log(StageStarted("job_stage_rename_files"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (text,) = told
    assert text.startswith(f"{path}: events cannot be written there any more (")
    assert text.endswith("; the commit continues without them")
    whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    assert all(json.loads(line) for line in whole)


def test_a_reader_of_events_that_goes_away_is_said_once_and_the_commit_goes_on(
    write_job, dest: Path, tmp_path: Path, tree
):
    write_job({0: {"a": "x"}})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    told: list[str] = []
    with event_log(pipe, on_failure=told.append) as log:

        def listen(event: Event) -> None:
            if event == StageStarted("job_stage_rename_files"):
                os.close(reader)
            log(event)

        ray_committer.commit_job(str(dest), on_event=listen)
    assert told == [
        f"{pipe}: events cannot be written there any more (Broken pipe); the commit continues without "
        f"them"
    ]
    assert tree() == {"a": "x"}


def test_the_command_says_so_if_events_cannot_be_written_any_more(write_job, dest: Path, tmp_path: Path):
    write_job({0: {"a": "x"}})
    code = (
        "import resource; from ray_committer.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY)); main()"
    )
    arguments = ["commit", str(dest), "--assume-complete", "--events", "e.jsonl"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("  e.jsonl: ")]
    assert line.startswith("  e.jsonl: events cannot be written there any more")


def test_events_of_many_threads_are_whole_lines(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    with event_log(path) as log:
        at_once([lambda: [log(FilesRenamed(n, 99)) for n in range(100)]] * 8)
    assert len(read(path)) == 801
