"""Show a commit on a terminal: lines on standard error that are redrawn four times per second.

There are two lines, and more while something is wrong. They disappear when the commit ends. Other output
to standard error, logs included, appears above them. If the terminal goes away, the commit continues.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ray_committer.cli.lines import Shown, interrupt_lines, loaded_text
from ray_committer.events import Event, JobLoaded, StageEnded
from ray_committer.protocol import statistic_names as names
from ray_committer.report.amounts import counted, seconds_text
from ray_committer.report.heartbeat import (
    files_text,
    notable_text,
    size_texts,
    speed_texts,
    trouble_texts,
)
from ray_committer.report.progress import Progress, ProgressMeter

DRAWN_PER_SECOND = 4.0
_BAR = 20  # columns
_ROOM_FOR_A_BAR = 70
_SHOW_CURSOR = "\x1b[?25h\n"


@contextmanager
def display() -> Iterator[Shown]:
    """Draw the progress of a commit until the commit or the block ends."""
    drawn = _Display(sys.stderr)
    drawn.start()
    try:
        yield Shown(drawn.event, drawn.interrupt)
    finally:
        drawn.stop()


class _Display:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._meter = ProgressMeter()
        self._spinner = Spinner("dots" if "utf" in stream.encoding.lower() else "line")
        self._interrupted: str | None = None
        self._live = Live(
            console=Console(file=cast("TextIO", _Lasting(stream)), highlight=False),
            get_renderable=self._render,
            refresh_per_second=DRAWN_PER_SECOND,
            transient=True,
            redirect_stdout=False,
        )

    def start(self) -> None:
        self._live.start()
        self._move_logs(self._stream, sys.stderr)  # sys.stderr passes on to the display now

    def stop(self) -> None:
        """End the display, if it has not ended yet, and leave the terminal as it was before."""
        # Before the display ends: a handler that still writes to it would draw a line into the report.
        self._move_logs(sys.stderr, self._stream)
        self._live.stop()

    def event(self, event: Event) -> None:
        self._meter.event(event)
        text = loaded_text(event) if isinstance(event, JobLoaded) else notable_text(event)
        if text is not None:
            self._live.console.print(Text(f"  {text}"), soft_wrap=True)
        if isinstance(event, StageEnded) and event.stage == names.COMMIT_JOB:
            self.stop()  # the report comes next

    def interrupt(self, text: str) -> None:
        """Show a signal handler's text with the next drawing; write the second, the last, directly."""
        # From a signal handler nothing is drawn: the drawing thread may hold the lock of the console.
        if self._interrupted is None and self._live.is_started:
            self._interrupted = text
            return
        with suppress(OSError):
            os.write(2, _SHOW_CURSOR.encode())
        interrupt_lines(text)

    def _render(self) -> Group:
        progress = self._meter.now()
        top = Table.grid(padding=(0, 1))
        top.add_row(
            self._spinner, Text(progress.stage, style="bold", no_wrap=True), *self._how_far(progress)
        )
        details = ", ".join([seconds_text(progress.seconds), *_details(progress)])
        texts = [self._interrupted or details, *trouble_texts(progress)]
        below = [Text(f"  {text}", no_wrap=True, overflow="ellipsis") for text in texts]
        return Group(top, *below)

    def _how_far(self, progress: Progress) -> list[ProgressBar | Text]:
        """A bar, if there is room for one, and the number of files."""
        if not progress.is_renaming or not progress.total_files:
            return []
        count = Text(files_text(progress), no_wrap=True, overflow="ellipsis")
        if self._live.console.width < _ROOM_FOR_A_BAR:
            return [count]
        return [ProgressBar(total=progress.total_files, completed=progress.files, width=_BAR), count]

    def _move_logs(self, source: TextIO, target: TextIO) -> None:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is source:
                handler.setStream(target)


def _details(progress: Progress) -> list[str]:
    texts = []
    if progress.is_renaming and progress.total_files:
        texts = [*size_texts(progress), *speed_texts(progress)]
    return [*texts, counted(progress.workers, "worker")] if progress.workers else texts


class _Lasting:
    """A stream that may lose its terminal: it drops text that cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
