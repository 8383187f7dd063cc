"""What happened during a commit, as data: for callbacks, progress lines and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
    """`done` of `total` files are in place."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something that a person should read."""

    text: str


EventSink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The sink of those who do not listen."""
