"""What who waits for a commit reads, each ten seconds."""

from __future__ import annotations

import time

import pytest

from ray_committer.events import Event, FilesRenamed, Notice, StageStarted, WorkerLost
from ray_committer.report.heartbeat import heartbeat, progress_line
from ray_committer.report.progress import Progress

RENAMING = {"stage": "rename_files", "seconds": 21.0, "is_renaming": True, "total_files": 100_000}
FAST = {"files": 20_000, "rate": 2_000.0, "seconds_left": 39.2}


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress("start", 0.0), "start, 0 s"),
        (Progress("load_manifests", 125.0), "load_manifests, 2 min 5 s"),
        (Progress("cleanup", 9.0, files=5, total_files=5), "cleanup, 9 s"),
        (Progress("rename_files", 21.0, is_renaming=True), "rename_files, 21 s"),
        (Progress(**RENAMING), "rename_files, 21 s, 0 of 100,000 files in place"),
        (
            Progress(**RENAMING, **FAST),
            "rename_files, 21 s, 20,000 of 100,000 files in place, 2,000 per second, about 40 s to go",
        ),
        (
            Progress(**RENAMING, **FAST, bytes=1_300_000_000, total_bytes=6_400_000_000),
            "rename_files, 21 s, 20,000 of 100,000 files in place, 1.3 GB of 6.4 GB, 2,000 per second, "
            "about 40 s to go",
        ),
        (
            Progress(**RENAMING, **FAST, idle_seconds=31),
            "rename_files, 21 s, 20,000 of 100,000 files in place, none for 31 s",
        ),
        (
            Progress(**RENAMING, files=100_000, rate=2_000.0, idle_seconds=31),
            "rename_files, 21 s, 100,000 of 100,000 files in place",
        ),
        (
            Progress("cleanup", 9.0, workers=3, lost=1, throttled_to=812.4, throttled_seconds_ago=4.9),
            "cleanup, 9 s, 3 workers live, 1 lost, the store throttles: 812 requests per second",
        ),
        (
            Progress("cleanup", 9.0, throttled_to=812.4, throttled_seconds_ago=12.0),
            "cleanup, 9 s, the store throttled 12 s ago, down to 812 requests per second",
        ),
        (Progress("load_manifests", 9.0, workers=3), "load_manifests, 9 s"),
    ],
)
def test_a_line_says_how_far_it_is_and_how_long_it_takes(progress: Progress, line: str):
    assert progress_line(progress) == line


def test_lines_are_written_while_it_runs_and_no_longer():
    lines: list[str] = []
    events: list[Event] = []
    sent = [
        StageStarted("job_stage_rename_files"),
        FilesRenamed(3, 7),
        Notice("somebody should read this"),
        WorkerLost("worker 1", "10.0.0.1", 77, "the node died"),
    ]
    with heartbeat("/t: ", events.append, lines.append, every=0.02) as sink:
        for event in sent:
            sink(event)
        deadline = time.monotonic() + 10
        while len(lines) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    written = len(lines)
    time.sleep(0.1)
    assert "/t: somebody should read this" in lines
    lost = "/t: worker 1 on 10.0.0.1 was lost and is being replaced: the node died"
    assert lost in lines
    assert lines[-1].startswith("/t: rename_files, 0 s, 3 of 7 files in place")
    assert len(lines) == written >= 4
    assert events == sent


def test_a_short_commit_says_nothing():
    lines: list[str] = []
    with heartbeat("", lambda _: None, lines.append) as sink:
        sink(StageStarted("job_stage_rename_files"))
    assert lines == []
