"""How a value is written as text: on the command line, in the environment and in Spark's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is written as text.

    meaning: what it must be, in words.
    read: the value of a text; any ``ValueError`` or ``KeyError`` means that it is no such value.
    unit: what stands for the value on the command line.
    check: returns a value that was given in Python, or raises for a wrong one.
    choices: all values, if they are few.
    plural: what is counted, after a number.
    absent: the word for None.
    """

    meaning: str
    read: Callable[[str], Any]
    unit: str = "TEXT"
    check: Callable[[Any], Any] = lambda value: value
    choices: tuple[str, ...] = ()
    plural: str = ""
    absent: str | None = None

    def value(self, text: str, least: float | None = None) -> Any:
        """Return the value of a text; ``ValueError`` says what it must be."""
        if self.absent is not None and text.lower() == self.absent:
            return None
        try:
            value = self.read(text)
        except (ValueError, KeyError, AttributeError):
            raise ValueError(f"must be {self}") from None
        return self.at_least(value, least)

    def at_least(self, value: Any, least: float | None) -> Any:
        """Return a value that is not too small; ``ValueError`` for another one."""
        if least is not None and value < least:
            raise ValueError(f"must be at least {least:g}{self.plural}")
        return value

    @property
    def words(self) -> list[str]:
        """The texts that can be completed."""
        return [*self.choices, *filter(None, (self.absent,))]

    def __str__(self) -> str:
        return self.meaning if self.absent is None else f"{self.meaning}, or {self.absent}"


def or_none(kind: Kind, word: str) -> Kind:
    """The same, or None, for which `word` stands."""
    unit = f"{kind.unit[:-1]}|{word}]" if kind.choices else kind.unit
    return replace(kind, absent=word, unit=unit)


def one_of(choices: Iterable[str], make: Callable[[str], Any] = str) -> Kind:
    """One of some words; `make` turns it into the value."""
    names = tuple(map(str, choices))

    def check(value: Any) -> Any:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return make(value)

    def read(text: str) -> Any:
        return make(names[names.index(text.lower())])

    return Kind(f"{', '.join(names[:-1])} or {names[-1]}", read, f"[{'|'.join(names)}]", check, names)


def read_truth(text: str) -> bool:
    """Return whether a text is "true"; ``KeyError`` if it is not "false" either."""
    return {"true": True, "false": False}[text.lower()]


def read_when(text: str) -> bool | Literal["later"]:
    """Return whether and when something is done; ``KeyError`` for another text."""
    return "later" if text.lower() == "later" else read_truth(text)


def _when(value: Any) -> Any:
    if isinstance(value, str) and value != "later":
        raise ValueError('must be True, False or "later"')
    return value


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.lower()).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def _finite(text: str) -> float:
    if not re.fullmatch(r"[0-9.]+(e[0-9]+)?", text.lower()):
        raise ValueError(text)
    return float(text)


_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
TRUTH = Kind("true or false", read_truth)
WHEN = Kind("true, false or later", read_when, check=_when)
COUNT = Kind("a whole number", int, "N")
NUMBER = Kind("a number", _finite, "N")
TIME = Kind(
    "a time such as 10s, 500ms, 5m, 1h or 7d (a number without a unit: seconds)",
    _seconds,
    "TIME",
    plural=" seconds",
)
