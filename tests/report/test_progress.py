"""How far a commit is and how long it will take, by a clock that the tests move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ray_committer.events import (
    FilesRenamed,
    JobLoaded,
    StageEnded,
    StageStarted,
    Throttled,
    WorkerLost,
    WorkerStarted,
)
from ray_committer.protocol import statistic_names as names
from ray_committer.report.amounts import bytes_text, counted, seconds_text
from ray_committer.report.progress import ProgressMeter
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def renaming(clock: Clock) -> ProgressMeter:
    """A commit of a million files that begins to rename them."""
    meter = ProgressMeter(clock=clock)
    meter.event(JobLoaded(manifests=10, files=1_000_000, bytes=5_000_000, resumed=False))
    clock.now += 7
    meter.event(StageStarted(names.RENAME_FILES))
    return meter


def test_what_is_to_be_done_is_known_before_the_first_file(renaming: ProgressMeter):
    now = renaming.now()
    assert (now.files, now.total_files, now.bytes, now.total_bytes) == (0, 1_000_000, 0, 5_000_000)
    assert (now.stage, now.is_renaming, now.rate, now.seconds_left) == ("rename_files", True, 0, None)
    assert now.seconds == 7


def test_the_rate_does_not_count_the_time_before_the_renames(renaming: ProgressMeter, clock: Clock):
    clock.now += 4
    renaming.event(FilesRenamed(2_000, 1_000_000))
    assert renaming.now().rate == 500


def test_the_rate_is_that_of_the_last_half_minute(renaming: ProgressMeter, clock: Clock):
    done = 0
    for second in range(300):
        clock.now += 1
        done += 5_000 if second < 200 else 100
        renaming.event(FilesRenamed(done, 1_000_000))
    now = renaming.now()
    assert 95 < now.rate < 105
    assert now.seconds_left == pytest.approx((1_000_000 - done) / now.rate)


def test_a_commit_that_stands_still_has_a_rate_that_falls_to_nothing(
    renaming: ProgressMeter, clock: Clock
):
    for done in (1_000, 2_000):
        clock.now += 1
        renaming.event(FilesRenamed(done, 1_000_000))
    rates = []
    for _ in range(5):
        rates.append(renaming.now().rate)
        clock.now += 10
    now = renaming.now()
    assert rates == sorted(rates, reverse=True)
    assert (now.rate, now.seconds_left, now.idle_seconds) == (0, None, 50)


def test_many_shards_a_second_keep_few_samples(renaming: ProgressMeter, clock: Clock):
    for done in range(10_000):
        clock.now += 0.01
        renaming.event(FilesRenamed(done, 1_000_000))
    now = renaming.now()
    assert 95 < now.rate < 105
    assert len(renaming._recent._samples) < 40


def test_workers_that_live_and_that_were_lost_are_counted_once(renaming: ProgressMeter):
    for number in (1, 2, 3, 3):
        renaming.event(WorkerStarted(f"worker-{number}", "10.0.0.1", 100 + number))
    renaming.event(WorkerLost("worker-2", "10.0.0.1", 102, "killed"))
    assert (renaming.now().workers, renaming.now().lost) == (2, 1)
    renaming.event(WorkerStarted("worker-4", "10.0.0.2", 104))
    assert (renaming.now().workers, renaming.now().lost) == (3, 1)


def test_the_wait_for_workers_is_a_stage(clock: Clock):
    meter = ProgressMeter(clock=clock)
    shown = []
    for event in (
        StageStarted(names.COMMIT_JOB),
        StageStarted(names.LOAD_MANIFESTS),
        StageEnded(names.LOAD_MANIFESTS, 1.0),
        StageStarted(names.START_WORKERS),
        StageEnded(names.START_WORKERS, 1.0),
        StageStarted(names.PREFLIGHT),
    ):
        meter.event(event)
        shown.append(meter.now().stage)
    assert shown == [
        "commit_job",
        "load_manifests",
        "load_manifests",
        "start_workers",
        "start_workers",
        "preflight",
    ]


def test_throttling_is_known_until_it_is_over(renaming: ProgressMeter, clock: Clock):
    def throttled() -> tuple[float | None, float | None]:
        now = renaming.now()
        return now.throttled_to, now.throttled_seconds_ago

    assert throttled() == (None, None)
    lasting = Throttled(3.0, 1.0, refused=10, before=2_000, lowest=800, number=1, rate=850)
    renaming.event(lasting)
    assert throttled() == (850, 1)
    clock.now += 50
    assert throttled() == (850, 51)
    clock.now += 10
    assert throttled() == (None, None)  # nobody told, but it is long ago
    renaming.event(lasting)
    renaming.event(replace(lasting, rate=2_100, recovered_seconds_ago=0.5))
    assert throttled() == (None, None)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (34_200_000_000, "34 GB"),
        (5_000_000_000_000_000_000, "5,000 PB"),
    ],
)
def test_bytes_read_well(number: int, text: str):
    assert bytes_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89.4, "89 s"), (89.6, "1 min 30 s"), (3_599.6, "1 h 0 min"), (7_500, "2 h 5 min")],
)
def test_seconds_read_well(seconds: float, text: str):
    assert seconds_text(seconds) == text


def test_nouns_agree_with_their_numbers():
    assert [counted(number, "file") for number in (0, 1, 2_000)] == ["0 files", "1 file", "2,000 files"]
