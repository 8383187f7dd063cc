"""The curve of a report shows how many files were in place at which time, and nothing that was not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

import msgspec
import pytest

from ray_committer.events import FilesRenamed, StageStarted
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.html import report_html
from ray_committer.report.recording import MOST_POINTS, Recording
from tests.clock import Clock
from tests.report.cases import quiet

WORKERS = 8
Ended = tuple[float, int]


def shards(seconds: float, rate: float, size: int, *, begin: float = 0.0) -> Iterator[Ended]:
    """The shards of `size` files that end when workers have together put `rate` files a second in place:
    when each ends, and its files."""
    each = size * WORKERS / rate
    for worker in range(WORKERS):
        at = begin + each * worker / WORKERS  # they do not end together
        yield at, round(size * worker / WORKERS)
        while at + each <= begin + seconds + 1e-6:
            at += each
            yield at, size
        yield begin + seconds, round(size * (begin + seconds - at) / each)


def recorded(ended: list[Ended]) -> CommitReport:
    clock = Clock(100.0)
    recording = Recording(clock=clock)
    recording.event(StageStarted(names.RENAME_FILES))
    for at, done in in_place(ended):
        clock.now = 100.0 + at
        recording.event(FilesRenamed(done, done))
    return recording.report(CommitResult(destination="/t", job_id="j", outcome=Outcome.COMMITTED))


def in_place(ended: list[Ended]) -> list[Ended]:
    """The files in place after each shard."""
    times, files = zip(*sorted(ended), strict=True)
    return list(zip(times, accumulate(files), strict=True))


def drawn(report: CommitReport) -> list[tuple[float, float]]:
    """The points of the line in the page, as shares of its width and height."""
    points = re.search(r'<polyline points="([^"]+)"', report_html(report))
    assert points is not None
    pairs = [one.split(",") for one in points[1].split()]
    return [(float(x) / 100, 1 - float(y) / 100) for x, y in pairs]


@pytest.mark.parametrize(("size", "number"), [(16, 5), (16, 80), (512, 175), (512, 1000)])
def test_a_steady_rate_is_a_straight_line_however_long_it_lasts(size: int, number: int):
    """From three seconds to six hours; each worker ends `number` shards."""
    seconds = number * size * WORKERS / 200
    report = recorded(list(shards(seconds, 200, size)))
    assert min(30, MOST_POINTS // 2) <= len(report.files_at) <= MOST_POINTS
    assert report.files_at[0] == (0.0, 0)
    assert report.files_at[-1] == (pytest.approx(seconds), pytest.approx(200 * seconds, abs=WORKERS))
    behind = [200 * at - files for at, files in report.files_at]  # in shards that had not ended
    assert all(-WORKERS <= one <= size * WORKERS for one in behind), behind
    line = drawn(report)
    assert all(abs(x - y) < 1.1 / number for x, y in line), line


def test_each_point_is_true_and_the_last_of_its_time_and_all_times_are_equally_long():
    ended = [*shards(600, 800, 200), *shards(1200, 200, 200, begin=600)]
    ended += shards(400, 400, 200, begin=2000)
    (began, none), *points = recorded(ended).files_at
    assert (began, none) == (0.0, 0)
    width = 12.8  # the first of 0.05 s, 0.1 s, 0.2 s, ... of which 240 are longer than these 2,400 s
    last = {int(at / width): (at, done) for at, done in in_place(ended)}
    assert points == list(last.values())


def test_memory_does_not_grow_and_no_file_is_lost():
    report = recorded([(number / 1000, 1) for number in range(100_000)])
    assert MOST_POINTS // 2 <= len(report.files_at) <= MOST_POINTS
    assert report.files_at == sorted(report.files_at)
    assert report.files_at[-1] == (pytest.approx(99.999), 100_000)


def test_without_a_shard_there_is_no_curve():
    assert "<polyline" in report_html(quiet())
    assert "<polyline" not in report_html(msgspec.structs.replace(quiet(), files_at=[]))


def test_shards_of_no_time_are_at_one_moment():
    report = recorded([(0.0, 4), (0.0, 5)])
    assert report.files_at == [(0.0, 0), (0.0, 9)]
