"""The Java classes depend on no locale and on no default encoding of their JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("ray_committer/spark/java/src/**/*.java"))

BY_THE_LOCALE = {
    "digits of the locale": r"\.format(ted)?\((?!\s*Locale\.ROOT)|printf\(|\bFormatter\(|\bScanner\(",
    "letters of the locale": r"\.to(Lower|Upper)Case\(\s*\)|\bCollator\b",
    "formats of the locale": r"\b\w*(Number|Decimal|Date|Message)Format(ter)?\b",
    "the default encoding": r"\.getBytes\(\s*\)|\bFile(Reader|Writer)\(|\bPrint(Stream|Writer)\("
    r"|new (InputStreamReader|OutputStreamWriter|String)\((?![^;]*StandardCharsets)",
}
"""What the results of these calls depend on; each has a form that takes `Locale.ROOT` or a charset."""


def broken(rule: str, text: str) -> list[str]:
    return [found.group() for found in re.finditer(rule, text)]


@pytest.mark.parametrize("rule", BY_THE_LOCALE.values(), ids=BY_THE_LOCALE.keys())
def test_no_class_calls_what_depends_on_the_locale_or_the_default_encoding(rule: str):
    assert SOURCES
    found = {path.name: broken(rule, path.read_text()) for path in SOURCES}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('String.format("%02d", n)', 1),
        ('String.format(\n    "%02d", n)', 1),
        ('"%d".formatted(n)', 1),
        ('String.format(Locale.ROOT, "%02d", n)', 0),
        ("String.format(\n    Locale.ROOT, x, n)", 0),
        ("scheme.toLowerCase()", 1),
        ("scheme.toLowerCase(Locale.ROOT)", 0),
        ("new DecimalFormat(x)", 1),
        ("text.getBytes()", 1),
        ("text.getBytes(StandardCharsets.UTF_8)", 0),
        ("new String(bytes)", 1),
        ("new String(readAll(fs, path), StandardCharsets.UTF_8)", 0),
        ("new String(found)", 1),
        ("new InputStreamReader(stream)", 1),
        ("new InputStreamReader(stream, StandardCharsets.UTF_8)", 0),
    ],
)
def test_the_rules_find_what_they_are_for(line: str, count: int):
    assert sum(len(broken(rule, line)) for rule in BY_THE_LOCALE.values()) == count
