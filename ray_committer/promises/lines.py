"""The result of the doctor checks: each line has what was measured, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The meaning of a line for a commit."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOTE = "note"
    """Not checked, because a commit would not use it, or cannot."""


@dataclass(frozen=True, slots=True)
class Line:
    """One doctor check: what was `measured`, and what to do (`advice`)."""

    name: str
    verdict: Verdict
    measured: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All doctor checks of one destination."""

    destination: str
    lines: tuple[Line, ...]

    @property
    def failed(self) -> bool:
        """True if a commit would fail, or would not be safe."""
        return any(line.verdict is Verdict.FAILED for line in self.lines)
