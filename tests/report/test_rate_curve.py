"""The curve of a report shows the rate at which files were put in place, and nothing that was not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from ray_committer.events import ShardRenamed, StageStarted
from ray_committer.protocol import statistic_names as names
from ray_committer.report.charts import rate_chart
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.rate_curve import MOST_BINS, RateCurve
from ray_committer.report.recording import Recording
from ray_committer.stages.commit_result import CommitResult, Outcome
from tests.report.cases import quiet

BLANK = CommitResult(destination="/t", job_id="j", outcome=Outcome.COMMITTED)
WORKERS = 8
Ended = tuple[float, float, int]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def shards(seconds: float, rate: float, size: int, *, begin: float = 0.0) -> Iterator[Ended]:
    """The shards of `size` files that end when workers have together put `rate` files a second in place:
    when each ends, how long its worker was busy, and its files."""
    each = size * WORKERS / rate
    for worker in range(WORKERS):
        at = begin + each * worker / WORKERS  # they do not end together
        yield at, at - begin, round(size * worker / WORKERS)
        while at + each <= begin + seconds + 1e-6:
            at += each
            yield at, each, size
        left = begin + seconds - at
        yield begin + seconds, left, round(size * left / each)


def recorded(*parts: Iterator[Ended]) -> CommitReport:
    clock = Clock()
    recording = Recording(clock=clock)
    recording.event(StageStarted(names.RENAME_FILES))
    for ended, seconds, files in sorted(one for part in parts for one in part):
        clock.now = 100.0 + ended
        recording.event(ShardRenamed("w", "n", 7, seconds, moved=files, bytes=0))
    return recording.report(BLANK)


def rates(report: CommitReport) -> list[float]:
    return [
        (files - before) / (at - began) for (began, before), (at, files) in pairwise(report.files_at)
    ]


def drawn(report: CommitReport) -> list[float]:
    """The heights of the chart's steps, as shares of its height."""
    path = re.search(r' d="([^"]+)"', rate_chart(report))
    assert path is not None
    return [1 - int(y) / 1000 for y in re.findall(r"V(\d+)H", path[1])]


@pytest.mark.parametrize(("size", "number"), [(16, 5), (16, 80), (512, 175), (512, 1000)])
def test_a_steady_rate_is_a_flat_line_however_long_it_lasts(size: int, number: int):
    """From three seconds to six hours; each worker ends `number` shards."""
    seconds = number * size * WORKERS / 200
    report = recorded(shards(seconds, 200, size))
    assert min(60, MOST_BINS // 2) <= len(report.files_at) <= MOST_BINS + 1
    assert report.files_at[-1] == pytest.approx((seconds, 200 * seconds))
    assert all(190 < rate < 210 for rate in rates(report)), rates(report)
    assert all(height > 0.95 for height in drawn(report))


def test_a_rate_that_changes_is_seen_when_it_changes():
    fast, slow = shards(600, 800, 200), shards(1200, 200, 200, begin=600)
    report = recorded(fast, slow, shards(400, 400, 200, begin=2000))
    found = [(at, rate) for (at, _), rate in zip(report.files_at[1:], rates(report), strict=True)]
    for begin, end, rate in ((0, 600, 800), (600, 1800, 200), (1800, 2000, 0), (2000, 2400, 400)):
        within = [one for at, one in found if begin + 26 < at < end]  # bins are 13 seconds wide
        assert len(within) > 10
        assert all(abs(one - rate) < 11 for one in within), (rate, within)


def test_all_bins_but_the_last_are_equally_wide():
    report = recorded(shards(1234.5, 100, 50))
    *widths, last = [at - began for (began, _), (at, _) in pairwise(report.files_at)]
    assert max(widths) == pytest.approx(min(widths))
    assert 0.5 * widths[0] <= last < 1.5 * widths[0] + 1e-9


def test_no_file_is_before_the_begin_and_none_is_lost():
    curve = RateCurve(10.0)
    curve.add(7, ended=11.0, seconds=30.0)
    curve.add(5, ended=11.0, seconds=0.0)
    curve.add(3, ended=9.0, seconds=1.0)
    points = curve.points()
    assert points[0] == (10.0, 0.0)
    assert points[1][1] == pytest.approx(3 + 7 / 20, abs=0.001)
    assert points[-1] == (11.0, 15.0)


def test_without_a_shard_there_is_no_curve():
    assert RateCurve(1.0).points() == []
    assert rate_chart(msgspec.structs.replace(quiet(), files_at=[])) == ""


def test_a_shard_of_no_time_is_at_one_moment():
    curve = RateCurve(1.0)
    curve.add(4, ended=1.0, seconds=0.0)
    assert curve.points() == [(1.0, 0.0), (1.0, 4.0)]
