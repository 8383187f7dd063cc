"""Record the events of one commit for its report, in memory that does not grow with its files.

Workers and stages are few. For everything that can be many, a limited number is kept, and the number of
dropped items is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
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
from ray_committer.report.commit_report import (
    CommitReport,
    LostWorkerRow,
    StageRow,
    ThrottledRow,
    WorkerRow,
)
from ray_committer.report.findings import findings

MOST_ROWS = 200
MOST_LOST = 50
MOST_POINTS = 240
_APART_SECONDS = 0.05


@dataclass(slots=True)
class _Recorded:
    began: dict[str, float] = field(default_factory=dict)
    stages: list[StageRow] = field(default_factory=list)
    files_at: list[tuple[float, int]] = field(default_factory=list)
    apart: float = _APART_SECONDS
    workers: dict[tuple[str, int], WorkerRow] = field(default_factory=dict)
    throttled: dict[int, ThrottledRow] = field(default_factory=dict)
    lost: list[LostWorkerRow] = field(default_factory=list)
    requeued: int = 0


class Recording:
    """An `EventSink` for the thread that commits; the time of an event is the time of its arrival."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._started_at = _utc_now()
        self._seen = _Recorded()

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
                self._seen.began[event.stage] = now
            case StageEnded():
                self._note_stage(event, now)
            case ShardRenamed():
                self._note_shard(event, now)
            case FilesRenamed():
                self._note_files(event.done, now)
            case ShardRequeued():
                self._seen.requeued += 1
            case WorkerLost():
                self._note_lost(event, now)
            case Throttled():
                self._note_throttled(event, now)

    def report(self, result: CommitResult, **facts: Any) -> CommitReport:
        """Return the report: the result, what was recorded, and the findings from both.

        `facts` are fields of the report that no event shows.
        """
        recorded = self._seen
        lost = {(lost_worker.worker, lost_worker.process) for lost_worker in recorded.lost}
        rows = [structs.replace(row, lost=key in lost) for key, row in recorded.workers.items()]
        rows.sort(key=lambda row: row.files_per_second)
        dropped = {"worker_rows": len(rows) - MOST_ROWS, "lost_workers": len(recorded.lost) - MOST_LOST}
        full = CommitReport(
            **structs.asdict(result),
            **facts,
            started_at=self._started_at,
            ended_at=_utc_now(),
            stages=list(recorded.stages),
            files_at=list(recorded.files_at),
            worker_rows=rows,
            throttled_spans=[recorded.throttled[number] for number in sorted(recorded.throttled)],
            lost_workers=recorded.lost[:MOST_LOST],
            shards_requeued=recorded.requeued,
            dropped={name: number for name, number in dropped.items() if number > 0},
        )
        sentences = findings(full)  # from all workers, not only from those that are shown
        return structs.replace(full, worker_rows=rows[:MOST_ROWS], findings=sentences)

    def _note_stage(self, event: StageEnded, now: float) -> None:
        began = self._seen.began.get(event.stage, now - event.seconds)
        self._seen.stages.append(StageRow(began=began, **asdict(event)))

    def _note_shard(self, event: ShardRenamed, now: float) -> None:
        recorded = self._seen
        key = event.worker, event.process
        row = recorded.workers.get(key) or WorkerRow(
            worker=event.worker, node=event.node, process=event.process
        )
        recorded.workers[key] = structs.replace(
            row,
            shards=row.shards + 1,
            files=row.files + event.files,
            bytes=row.bytes + event.bytes,
            busy=row.busy + event.seconds,
            last=now,
            retries=row.retries + event.retries,
            throttled=row.throttled + event.throttled,
        )

    def _note_files(self, done: int, now: float) -> None:
        """Add a point to the curve, which keeps the last one in each of at most 240 equal times."""
        recorded, points = self._seen, self._seen.files_at
        if not points:
            points.append((recorded.began.get(RENAME_FILES, now), 0))
        began = points[0][0]
        if len(points) > 1 and int((points[-1][0] - began) / recorded.apart) == int(
            (now - began) / recorded.apart
        ):
            # The last point of each interval stays, so the curve always ends at the newest number.
            points.pop()
        points.append((now, done))
        while len(points) > MOST_POINTS:
            recorded.apart *= 2
            points[1:] = {
                int((point[0] - began) / recorded.apart): point for point in points[1:]
            }.values()

    def _note_lost(self, event: WorkerLost, now: float) -> None:
        self._seen.lost.append(LostWorkerRow(seconds=now, **asdict(event)))

    def _note_throttled(self, event: Throttled, now: float) -> None:
        known = self._seen.throttled.get(event.number)
        recovered = event.recovered_seconds_ago
        self._seen.throttled[event.number] = ThrottledRow(
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
