"""Print results to standard output: as lines that are never broken, or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ray_committer.cli.document import keep
from ray_committer.report.amounts import bytes_text, seconds_text

_DAY = 86_400.0
_SHOWN_PARTITIONS = 5


def print_result(output: str, value: Any, lines: Iterable[Text | str]) -> None:
    """Print the result of a command in the format of ``--output``.

    As JSON, the value is an object, such as a dataclass, or None; it is printed when the command ends.
    """
    if output == "json":
        keep(value)
    else:
        print_lines(lines)


def print_lines(lines: Iterable[Text | str]) -> None:
    """Print lines, with colours if the terminal has them and NO_COLOR is not set."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for line in lines:
        console.print(line)


def count_text(number: int | None, what: str, *, about: bool = False) -> str:
    """``1 file``, ``12,000 files``, ``about 12,000 files``, ``an unknown number of files``."""
    if number is None:
        return f"an unknown number of {what}s"
    return f"{'about ' if about else ''}{number:,} {what}{'' if number == 1 else 's'}"


def partitions_text(partitions: Sequence[str]) -> str:
    """``day=1 | day=2``, ``the whole table``, or the first ones and how many more."""
    shown = " | ".join(path or "the whole table" for path in partitions[:_SHOWN_PARTITIONS])
    left = len(partitions) - _SHOWN_PARTITIONS
    return f"{shown} and {left:,} more" if left > 0 else shown


def size_text(number: int | None, *, about: bool = False) -> str:
    """Bytes in the unit that fits, or ``unknown size``."""
    if number is None:
        return "unknown size"
    return f"{'about ' if about else ''}{'1 byte' if number == 1 else bytes_text(number)}"


def age_text(seconds: float | None) -> str:
    """How long ago something last changed."""
    if seconds is None:
        return "the store does not report when it last changed"
    return f"last changed {ago_text(seconds)}"


def ago_text(seconds: float | None) -> str:
    """How long ago something was, in days from two days on."""
    if seconds is None:
        return "at an unknown time"
    if seconds < 2 * _DAY:
        return f"{seconds_text(seconds)} ago"
    return f"{seconds // _DAY:,.0f} days ago"
