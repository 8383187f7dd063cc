"""How far a commit is, how fast it goes and how long it will still take: from its events, at any moment.

The one arithmetic behind the lines of a Spark driver's log, those of a command and the display of a
terminal. The rate is that of the last half minute, so that who waits sees a store that became slow,
and a commit that hangs, at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ray_committer.events import (
    Event,
    FilesRenamed,
    JobLoaded,
    StageStarted,
    Throttled,
    WorkerLost,
    WorkerStarted,
)
from ray_committer.protocol import statistic_names as names

RATE_SECONDS = 30.0
REMEMBERED_SECONDS = 60.0  # how long throttling is told of, if the commit has not recovered
_SAMPLE_SECONDS = 1.0  # so that the samples of a rate are few, however many shards end

_PREFIXES = ("job_stage_", "committer_")


def stage_name(stage: str) -> str:
    """A stage's statistic name without what all of them begin with."""
    for prefix in _PREFIXES:
        stage = stage.removeprefix(prefix)
    return stage


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a commit is: counts of files and bytes, rates a second, durations in seconds.

    `rate` is of files. `idle_seconds` is how long no file has come to its place; `seconds_left` is None
    if nobody knows. `workers` live and `lost` were replaced; both are 0 where there are none but the
    driver. The store refused a request `throttled_seconds_ago`, which led to a limit of `throttled_to`
    requests a second; both are None if all is well again.
    """

    stage: str
    seconds: float
    is_renaming: bool = False
    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    rate: float = 0.0
    idle_seconds: float = 0.0
    seconds_left: float | None = None
    workers: int = 0
    lost: int = 0
    throttled_to: float | None = None
    throttled_seconds_ago: float | None = None


class Pace:
    """Takes note of events, which any thread may bring, and tells the `Standing` of any moment."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started = clock()
        self._stage = "start"
        self._renamed = FilesRenamed(0, 0)
        self._recent = _Recent(self._started)
        self._workers: set[str] = set()
        self._lost = 0
        self._throttled_at = float("-inf")
        self._limit = 0.0

    def event(self, event: Event) -> None:
        """Take note of what happened."""
        with self._lock:
            self._note(event, self._clock())

    def _note(self, event: Event, now: float) -> None:
        if isinstance(event, StageStarted):
            self._stage = event.stage
            if event.stage == names.RENAME_FILES:
                self._recent = _Recent(now)
        elif isinstance(event, JobLoaded):
            self._renamed = FilesRenamed(0, event.files, 0, event.bytes)
        elif isinstance(event, FilesRenamed):
            self._renamed = event
            self._recent.add(now, event.done)
        elif isinstance(event, WorkerStarted):
            self._workers.add(event.worker)
        elif isinstance(event, WorkerLost):
            self._workers.discard(event.worker)
            self._lost += 1
        elif isinstance(event, Throttled):
            is_over = event.recovered_seconds_ago is not None
            self._throttled_at = float("-inf") if is_over else now - event.last_seconds_ago
            self._limit = event.rate

    def standing(self) -> Standing:
        """How far the commit is now."""
        with self._lock:
            now, renamed = self._clock(), self._renamed
            rate = self._recent.rate(now)
            left = renamed.total - renamed.done
            ago = now - self._throttled_at
            is_throttled = ago < REMEMBERED_SECONDS
            return Standing(
                stage=stage_name(self._stage),
                seconds=now - self._started,
                is_renaming=self._stage == names.RENAME_FILES,
                files=renamed.done,
                total_files=renamed.total,
                bytes=renamed.bytes_done,
                total_bytes=renamed.bytes_total,
                rate=rate,
                idle_seconds=now - self._recent.last_at,
                seconds_left=left / rate if left and rate else None,
                workers=len(self._workers),
                lost=self._lost,
                throttled_to=self._limit if is_throttled else None,
                throttled_seconds_ago=ago if is_throttled else None,
            )


class _Recent:
    """How many files were in place when: of the last half minute, at most one sample a second."""

    def __init__(self, now: float) -> None:
        self._samples = deque([(now, 0)])

    @property
    def last_at(self) -> float:
        return self._samples[-1][0]

    def add(self, now: float, files: int) -> None:
        if len(self._samples) > 1 and now - self._samples[-2][0] < _SAMPLE_SECONDS:
            self._samples.pop()
        self._samples.append((now, files))

    def rate(self, now: float) -> float:
        """Files a second since the newest sample that is older than `RATE_SECONDS`, or the first."""
        while len(self._samples) > 1 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()
        (began, before), (_, files) = self._samples[0], self._samples[-1]
        return (files - before) / max(now - began, 0.001)
