"""What was looked at, what was found, and what to do about it: a line each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a line means for a commit."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOTE = "note"
    """Not examined, because a commit would not use it, or cannot."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was examined: what was `measured`, and in words what to do (`advice`)."""

    name: str
    verdict: Verdict
    measured: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was examined for one destination."""

    destination: str
    lines: tuple[Line, ...]

    @property
    def failed(self) -> bool:
        """Whether a commit would fail, or would not be safe."""
        return any(line.verdict is Verdict.FAILED for line in self.lines)
