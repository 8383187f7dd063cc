"""What happened during a commit, as data: for callbacks, progress lines and reports.

At most a few events a shard or a stage, none a file: who listens holds no more than they choose to.
Events carry no time of their own; who records them looks at a clock when they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """Anything that happened."""


@dataclass(frozen=True, slots=True)
class StageStarted(Event):
    """A stage of the commit began; `stage` is Hadoop's statistic name."""

    stage: str


@dataclass(frozen=True, slots=True)
class StageEnded(Event):
    """A stage ended after `seconds`; `error` is the text of what ended it early."""

    stage: str
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FilesRenamed(Event):
    """`done` of `total` files, and so many of their bytes, are in place."""

    done: int
    total: int
    bytes_done: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker of this commit, process `process` on `node`, is ready for work."""

    worker: str
    node: str
    process: int


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A worker died or was cut off; another is started in its place. `node` is "" if not known."""

    worker: str
    node: str
    process: int
    cause: str


@dataclass(frozen=True, slots=True)
class ShardRequeued(Event):
    """A shard that `worker` had is done again by another, since it was lost with it."""

    worker: str


@dataclass(frozen=True, slots=True)
class ShardRenamed(Event):
    """A worker ended one shard of renames.

    `moved` files were moved now, `proved` (by kind of proof) had been before. `seconds` are those that
    the worker was busy since it last said so: they count once, however many shards it worked on.
    `retries` of its requests were made again, `throttled` refused because there were too many.
    """

    worker: str
    node: str
    process: int
    seconds: float
    moved: int
    bytes: int
    proved: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    throttled: int = 0
    error: str | None = None

    @property
    def files(self) -> int:
        return self.moved + sum(self.proved.values())


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """The store refuses requests because there are too many; told while it lasts, and at the end.

    `number` tells one span of throttling from the next; a later event of it replaces the earlier. It
    began and was last seen so many seconds ago, and `refused` requests. The limit of requests was
    `before` a second, went down to `lowest` and is `rate` now; it was `before` again
    `recovered_seconds_ago`, or is not yet (None).
    """

    number: int
    began_seconds_ago: float
    last_seconds_ago: float
    refused: int
    before: float
    lowest: float
    rate: float
    recovered_seconds_ago: float | None = None


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something that a person should read."""

    text: str


EventSink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The sink of those who do not listen."""
