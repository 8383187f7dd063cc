"""A line each ten seconds for who waits for a commit and sees nothing of it, as in ``df.write``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ray_committer.events import Event, EventSink, FilesRenamed, Notice, StageStarted

EVERY_SECONDS = 10.0

_PREFIXES = ("job_stage_", "committer_")


class Heartbeat:
    """Knows how far a commit is; an `EventSink` that any thread may call."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._started = clock()
        self._stage = "start"
        self._stage_started = self._started
        self._files: FilesRenamed | None = None

    def event(self, event: Event) -> None:
        """Take note of what happened."""
        if isinstance(event, StageStarted):
            self._stage = event.stage
            for prefix in _PREFIXES:
                self._stage = self._stage.removeprefix(prefix)
            self._stage_started = self._clock()
        elif isinstance(event, FilesRenamed):
            self._files = event

    def line(self) -> str:
        """How far it is now: the stage, and of the files how many, how fast and for how long still."""
        now = self._clock()
        text = f"ray_committer: {self._name}: {self._stage}, {now - self._started:.0f} s"
        files = self._files
        if files is None or self._stage != "rename_files":
            return text
        text += f", {files.done:,} of {files.total:,} files in place"
        rate = files.done / max(now - self._stage_started, 0.001)
        if 0 < files.done < files.total:
            text += f", {rate:,.0f} a second, about {(files.total - files.done) / rate:,.0f} s to go"
        return text


@contextmanager
def heartbeat(
    name: str, on_event: EventSink, write: Callable[[str], None], *, every: float = EVERY_SECONDS
) -> Iterator[EventSink]:
    """Write a line `every` so many seconds until the block ends, and notices at once.

    The sink that is given passes all events on to `on_event`.
    """
    beat, ended = Heartbeat(name), threading.Event()

    def sink(event: Event) -> None:
        beat.event(event)
        if isinstance(event, Notice):
            write(f"ray_committer: {name}: {event.text}")
        on_event(event)

    def run() -> None:
        while not ended.wait(every):
            write(beat.line())

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        ended.set()
        thread.join()
