"""What a commit and its caller tell each other while it runs: its events, and its cancellation.

Events are data for callbacks, progress lines and reports: a few per shard or stage, and none per file.
They have no time of their own: a recorder reads a clock when they arrive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


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
class CommitStarted(Event):
    """A run of a commit began; `executor` is the name of the executor that does its work."""

    destination: str
    job_id: str
    job_attempt: int
    executor: str


@dataclass(frozen=True, slots=True)
class JobLoaded(Event):
    """The counts of the job to commit are known; `resumed` if an earlier run had begun the commit."""

    manifests: int
    files: int
    bytes: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class FilesRenamed(Event):
    """`done` of `total` files, and `bytes_done` of `bytes_total` bytes, are in place."""

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
    """A shard was lost with `worker`, and another worker does it again."""

    worker: str


@dataclass(frozen=True, slots=True)
class ShardRenamed(Event):
    """A worker ended one shard of renames: of files, or of so many whole `directories`.

    `moved` files were moved now; `proved` files, by kind of proof, had been moved before. `seconds` is
    the time that the worker was busy since its last report: it counts once, however many shards the
    worker had. `retries` requests were repeated, and `throttled` requests were refused because there
    were too many.
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
    directories: int = 0

    @property
    def files(self) -> int:
        """The files of the shard that are in place: moved or proved."""
        return self.moved + sum(self.proved.values())


@dataclass(frozen=True, slots=True)
class ThrottledSpan:
    """A period in which the store refused requests because there were too many.

    It began `began_seconds_ago` and was last seen `last_seconds_ago`. `refused` counts the refused
    requests, also in the second before it. In requests per second, the limit was `before` and fell to
    `lowest`. It was `before` again `recovered_seconds_ago`, or is not yet (None).
    """

    began_seconds_ago: float
    last_seconds_ago: float
    refused: int
    before: float
    lowest: float
    recovered_seconds_ago: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled(ThrottledSpan, Event):
    """The store throttles; sent while this lasts, and at the end.

    A later event of the same span, which has the same `number`, replaces the earlier one. The limit is
    `rate` requests per second now.
    """

    number: int
    rate: float


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something that a person should read."""

    text: str


EventSink = Callable[[Event], None]


def to_all(*sinks: EventSink) -> EventSink:
    """Return a sink that passes each event on to `sinks`, in their order."""

    def sink(event: Event) -> None:
        for each_sink in sinks:
            each_sink(event)

    return sink


def ignore(event: Event) -> None:
    """A sink that ignores all events."""


def unfailing(sink: EventSink) -> EventSink:
    """Return a sink that passes events on to `sink` until that raises an exception, which is logged: the
    outcome of a commit does not depend on who listens to it."""
    failed: list[None] = []

    def pass_on(event: Event) -> None:
        if failed:
            return
        try:
            sink(event)
        except Exception:  # noqa: BLE001 - whatever it is, the commit continues
            failed.append(None)
            _log.warning("a listener has failed and gets no more events", exc_info=True)

    return pass_on


class CancelToken:
    """Cancels a commit from another thread, such as a signal handler or a callback of Spark: pass it to
    `commit_job`, and call `cancel`.

    It is set once and cannot be reset. The commit then ends with `CommitCancelledError`, with everything
    kept, and the same call with a new token finishes it.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel; idempotent. Requests in flight end, and nothing new begins.

        The callbacks of `on_cancel` run in this thread.
        """
        with self._lock:
            self._event.set()
            # Taken out under the lock and called outside it: a callback may cancel again, or wait for
            # another thread.
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` when cancelled; at once if that has already happened."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()
