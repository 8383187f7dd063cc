"""Record the events of one commit for its report, in memory that does not grow with its files.

Workers and stages are few. For everything that can be many, a limited number is kept, and the number of
dropped items is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from ray_committer.events import (
    Event,
    EventSink,
    FilesRenamed,
    ShardRenamed,
    ShardRequeued,
    StageEnded,
    StageStarted,
    Throttled,
    WorkerLost,
    unfailing,
)
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.statistic_names import RENAME_FILES
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.findings import findings
from ray_committer.report.run_data import LostWorkerRow, StageRow, ThrottledRow, WorkerRow

MOST_ROWS = 200
MOST_LOST = 50
MOST_POINTS = 240
_APART_SECONDS = 0.05


class Recording:
    """An `EventSink` for the thread that commits; the time of an event is the time of its arrival."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._started_at = _utc_now()
        self._began: dict[str, float] = {}
        self._stages: list[StageRow] = []
        self._files_at: list[tuple[float, int]] = []
        self._apart = _APART_SECONDS
        self._workers: dict[tuple[str, int], WorkerRow] = {}
        self._throttled: dict[int, ThrottledRow] = {}
        self._lost: list[LostWorkerRow] = []
        self._requeued = 0

    def before(self, sink: EventSink) -> EventSink:
        """Return a sink that records an event and passes it on."""
        # A caller's sink that fails must not stop a commit between two files.
        sink = unfailing(sink)

        def record_and_tell(event: Event) -> None:
            self.event(event)
            sink(event)

        return record_and_tell

    def event(self, event: Event) -> None:
        """Record an event."""
        now = self._clock() - self._started
        match event:
            case StageStarted():
                self._began[event.stage] = now
            case StageEnded():
                self._note_stage(event, now)
            case ShardRenamed():
                self._note_shard(event, now)
            case FilesRenamed():
                self._note_files(event.done, now)
            case ShardRequeued():
                self._requeued += 1
            case WorkerLost():
                self._lost.append(LostWorkerRow(seconds=now, **asdict(event)))
            case Throttled():
                self._note_throttled(event, now)

    def report(self, result: CommitResult, **facts: Any) -> CommitReport:
        """Return the report: the result, what was recorded, findings, and `facts` without an event."""
        lost = {(lost_worker.worker, lost_worker.process) for lost_worker in self._lost}
        rows = [structs.replace(row, lost=key in lost) for key, row in self._workers.items()]
        rows.sort(key=lambda row: row.files_per_second)
        dropped = {"worker_rows": len(rows) - MOST_ROWS, "lost_workers": len(self._lost) - MOST_LOST}
        full = CommitReport(
            **structs.asdict(result),
            **facts,
            started_at=self._started_at,
            ended_at=_utc_now(),
            stages=list(self._stages),
            files_at=list(self._files_at),
            worker_rows=rows,
            throttled_spans=[self._throttled[number] for number in sorted(self._throttled)],
            lost_workers=self._lost[:MOST_LOST],
            shards_requeued=self._requeued,
            dropped={name: number for name, number in dropped.items() if number > 0},
        )
        sentences = findings(full)  # from all workers, not only from those that are shown
        return structs.replace(full, worker_rows=rows[:MOST_ROWS], findings=sentences)

    def _note_stage(self, event: StageEnded, now: float) -> None:
        began = self._began.get(event.stage, now - event.seconds)
        self._stages.append(StageRow(began=began, **asdict(event)))

    def _note_shard(self, event: ShardRenamed, now: float) -> None:
        key = event.worker, event.process
        row = self._workers.get(key) or WorkerRow(
            worker=event.worker, node=event.node, process=event.process
        )
        self._workers[key] = structs.replace(
            row,
            shards=row.shards + 1,
            files=row.files + event.files,
            moves=row.moves + (event.directories or event.files),
            bytes=row.bytes + event.bytes,
            busy=row.busy + event.seconds,
            last=now,
            retries=row.retries + event.retries,
            throttled=row.throttled + event.throttled,
        )

    def _note_files(self, done: int, now: float) -> None:
        """Add a point to the curve, which keeps the last one in each of at most 240 equal times."""
        points = self._files_at
        if not points:
            points.append((self._began.get(RENAME_FILES, now), 0))
        began = points[0][0]
        if len(points) > 1 and int((points[-1][0] - began) / self._apart) == int(
            (now - began) / self._apart
        ):
            # The last point of each interval stays, so the curve always ends at the newest number.
            points.pop()
        points.append((now, done))
        while len(points) > MOST_POINTS:
            self._apart *= 2
            points[1:] = {int((point[0] - began) / self._apart): point for point in points[1:]}.values()

    def _note_throttled(self, event: Throttled, now: float) -> None:
        known = self._throttled.get(event.number)
        recovered = event.recovered_seconds_ago
        self._throttled[event.number] = ThrottledRow(
            began=known.began if known else now - event.began_seconds_ago,
            last=now - event.last_seconds_ago,
            refused=event.refused,
            before=event.before,
            lowest=event.lowest,
            end=event.rate,
            recovered=None if recovered is None else now - recovered,
        )


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
