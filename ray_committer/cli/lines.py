"""Show a running commit as lines on standard error.

There is one line every ten seconds, and one at once for each notable event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import click

from ray_committer.events import Event, EventSink, JobLoaded, StageEnded, StageStarted
from ray_committer.protocol import statistic_names as names
from ray_committer.report.amounts import bytes_text, counted, seconds_text
from ray_committer.report.heartbeat import EVERY_SECONDS, heartbeat
from ray_committer.report.progress import stage_name

_TOLD_STAGES = (names.LOAD_MANIFESTS, names.RENAME_FILES)
_LONG_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Shown:
    """The sink for events that are shown, and the function for a signal handler's text."""

    event: EventSink
    interrupt: Callable[[str], None]


def tell(line: str) -> None:
    """Write a line. If the reader is gone, for example a dead Spark driver, the commit continues."""
    with suppress(OSError):
        click.echo(line, err=True)


@contextmanager
def lines(*, every: float = EVERY_SECONDS) -> Iterator[Shown]:
    """Write a line for each notable event when it happens, and the progress every `every` seconds."""
    with heartbeat("  ", _tell_stage, tell, every=every) as sink:
        yield Shown(sink, interrupt_lines)


def interrupt_lines(text: str) -> None:
    """Write a line from a signal handler, which may have interrupted a write to the same stream."""
    with suppress(OSError):
        os.write(2, f"ray-committer: {text}\n".encode())


def _tell_stage(event: Event) -> None:
    """Write a line for a stage that may take long, for the amount of work, and for what took long."""
    if isinstance(event, StageStarted) and event.stage in _TOLD_STAGES:
        tell(f"  {stage_name(event.stage)}")
    elif isinstance(event, JobLoaded):
        tell(f"  {loaded_text(event)}")
    elif isinstance(event, StageEnded):
        is_long = event.seconds >= _LONG_SECONDS
        if is_long and event.stage != names.COMMIT_JOB:  # the report has that
            tell(f"  {stage_name(event.stage)} took {seconds_text(event.seconds)}")


def loaded_text(job: JobLoaded) -> str:
    """The amount of work of the commit."""
    manifests = counted(job.manifests, "task manifest")
    text = f"{counted(job.files, 'file')}, {bytes_text(job.bytes)}, of {manifests}"
    return f"{text}; an earlier run had begun to move them" if job.resumed else text
