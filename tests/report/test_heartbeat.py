"""What who waits for a commit reads, each ten seconds."""

from __future__ import annotations

import time

from ray_committer.events import Event, FilesRenamed, Notice, StageStarted
from ray_committer.report.heartbeat import Heartbeat, heartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_says_how_far_it_is_and_how_long_it_takes():
    clock = Clock()
    beat = Heartbeat("/t", clock=clock)
    assert beat.line() == "ray_committer: /t: start, 0 s"
    clock.now += 2
    beat.event(StageStarted("job_stage_load_manifests"))
    clock.now += 9
    assert beat.line() == "ray_committer: /t: load_manifests, 11 s"
    beat.event(StageStarted("job_stage_rename_files"))
    assert beat.line() == "ray_committer: /t: rename_files, 11 s"
    clock.now += 10
    beat.event(FilesRenamed(20_000, 100_000))
    assert beat.line() == (
        "ray_committer: /t: rename_files, 21 s, 20,000 of 100,000 files in place, "
        "2,000 a second, about 40 s to go"
    )
    beat.event(FilesRenamed(100_000, 100_000))
    assert beat.line() == "ray_committer: /t: rename_files, 21 s, 100,000 of 100,000 files in place"
    beat.event(StageStarted("job_stage_cleanup"))
    assert beat.line() == "ray_committer: /t: cleanup, 21 s"


def test_nothing_done_yet_has_no_estimate():
    beat = Heartbeat("/t", clock=Clock())
    beat.event(StageStarted("job_stage_rename_files"))
    beat.event(FilesRenamed(0, 10))
    assert beat.line().endswith("0 of 10 files in place")


def test_lines_are_written_while_it_runs_and_no_longer():
    lines: list[str] = []
    events: list[Event] = []
    with heartbeat("/t", events.append, lines.append, every=0.02) as sink:
        sink(Notice("somebody should read this"))
        deadline = time.monotonic() + 10
        while len(lines) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    written = len(lines)
    time.sleep(0.1)
    assert lines[0] == "ray_committer: /t: somebody should read this"
    assert len(lines) == written >= 3
    assert events == [Notice("somebody should read this")]


def test_a_short_commit_says_nothing():
    lines: list[str] = []
    with heartbeat("/t", lambda _: None, lines.append) as sink:
        sink(StageStarted("job_stage_rename_files"))
    assert lines == []
