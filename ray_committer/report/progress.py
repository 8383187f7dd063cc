"""Compute the progress, the rate and the time left of a commit from its events, at any moment.

The lines of a Spark driver's log, the lines of a command and the display on a terminal all use it. The
rate is the rate of the last half minute, so that users see a store that became slow, or a commit that
hangs, at once.
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
REMEMBERED_SECONDS = 60.0  # how long throttling is shown, if the commit has not recovered
_SAMPLE_SECONDS = 1.0  # keeps the samples of a rate few, however many shards end

_PREFIXES = ("job_stage_", "committer_")


def stage_name(stage: str) -> str:
    """A stage's statistic name without the common prefixes."""
    for prefix in _PREFIXES:
        stage = stage.removeprefix(prefix)
    return stage


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a commit: counts of files and bytes, rates per second, durations in seconds.

    `rate` counts files. `idle_seconds` is the time since a file was last put in place; `seconds_left` is
    None if it is not known. `workers` live and `lost` were replaced; both are 0 if only the driver
    works. The store refused a request `throttled_seconds_ago`, which led to a limit of `throttled_to`
    requests per second; both are None if all is well again.
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


class ProgressMeter:
    """Records events, from any thread, and computes the `Progress` at any moment."""

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
        """Record an event."""
        with self._lock:
            self._note(event, self._clock())

    def _note(self, event: Event, now: float) -> None:
        if isinstance(event, StageStarted):
            self._stage = event.stage
            # It is the rate of renames: the time of loading must not slow it down.
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

    def now(self) -> Progress:
        """Return the progress of the commit now."""
        with self._lock:
            now, renamed = self._clock(), self._renamed
            rate = self._recent.rate(now)
            left = renamed.total - renamed.done
            ago = now - self._throttled_at
            is_throttled = ago < REMEMBERED_SECONDS
            return Progress(
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
    """The number of files in place over the last half minute, at most one sample per second."""

    def __init__(self, now: float) -> None:
        self._samples = deque([(now, 0)])

    @property
    def last_at(self) -> float:
        return self._samples[-1][0]

    def add(self, now: float, files: int) -> None:
        # The newest sample moves on until it is a second after the one before, so that `last_at` is
        # always exact.
        if len(self._samples) > 1 and now - self._samples[-2][0] < _SAMPLE_SECONDS:
            self._samples.pop()
        self._samples.append((now, files))

    def rate(self, now: float) -> float:
        """Files per second since the newest sample that is older than `RATE_SECONDS`, or the first."""
        while len(self._samples) > 1 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()
        (began, before), (_, files) = self._samples[0], self._samples[-1]
        return (files - before) / max(now - began, 0.001)
