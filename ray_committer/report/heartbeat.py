"""One line every ten seconds while a user waits for a commit and sees nothing of it (``df.write``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

from ray_committer.events import Event, EventSink, Notice, WorkerLost
from ray_committer.report.amounts import bytes_text, counted, seconds_text
from ray_committer.report.progress import Progress, ProgressMeter

EVERY_SECONDS = 10.0
_IDLE_SECONDS = 10.0
_THROTTLED_SECONDS = 5.0


def progress_line(progress: Progress) -> str:
    """The stage, the number of files, their rate, the time left, and what slows the commit down."""
    parts = [progress.stage, seconds_text(progress.seconds)]
    if progress.is_renaming and progress.total_files:
        parts.extend([f"{files_text(progress)} in place", *size_texts(progress), *speed_texts(progress)])
    return ", ".join([*parts, *trouble_texts(progress)])


def files_text(progress: Progress) -> str:
    """How many files are in place."""
    return f"{progress.files:,} of {progress.total_files:,} files"


def size_texts(progress: Progress) -> list[str]:
    """How many bytes are in place, if there are any."""
    if not progress.total_bytes:
        return []
    return [f"{bytes_text(progress.bytes)} of {bytes_text(progress.total_bytes)}"]


def speed_texts(progress: Progress) -> list[str]:
    """The rate and the time left, or how long no file has been moved."""
    if progress.files == progress.total_files:
        return []
    if progress.idle_seconds >= _IDLE_SECONDS:
        return [f"none for {seconds_text(progress.idle_seconds)}"]
    if progress.seconds_left is None:
        return []
    return [
        f"{progress.rate:,.0f} per second",
        f"about {seconds_text(ceil(progress.seconds_left))} to go",
    ]


def trouble_texts(progress: Progress) -> list[str]:
    """What a person should know about workers and the store; empty if all is well."""
    texts = []
    if progress.lost:
        texts.append(f"{counted(progress.workers, 'worker')} live, {progress.lost} lost")
    if progress.throttled_to is not None and progress.throttled_seconds_ago is not None:
        ago, limit = progress.throttled_seconds_ago, f"{progress.throttled_to:,.0f} requests per second"
        if ago < _THROTTLED_SECONDS:
            texts.append(f"the store throttles: {limit}")
        else:
            texts.append(f"the store throttled {seconds_text(ago)} ago, down to {limit}")
    return texts


def notable_text(event: Event) -> str | None:
    """The text of an event that is shown at once; None for all other events."""
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, WorkerLost):
        where = f" on {event.node}" if event.node else ""
        return f"{event.worker}{where} was lost and is being replaced: {event.cause}"
    return None


@contextmanager
def heartbeat(
    prefix: str,
    on_event: EventSink,
    write: Callable[[str], None],
    *,
    every: float = EVERY_SECONDS,
    notable: Callable[[str], None] | None = None,
) -> Iterator[EventSink]:
    """Write a line every `every` seconds until the block ends, and notable events at once.

    The yielded sink passes all events on to `on_event`; each line begins with `prefix`. Lines about
    notable events go to `notable` instead, if it is given.
    """
    meter, ended = ProgressMeter(), threading.Event()

    def sink(event: Event) -> None:
        meter.event(event)
        text = notable_text(event)
        if text is not None:
            (notable or write)(prefix + text)
        on_event(event)

    def run() -> None:
        # Waits first: a short commit writes no line.
        while not ended.wait(every):
            write(prefix + progress_line(meter.now()))

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        ended.set()
        thread.join()
