"""The fenced blocks of README.md and docs/, as printed there."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `name` is its page, its heading, and its number under that heading if not 1."""

    name: str
    language: str
    text: str


def pages() -> list[Path]:
    """README.md and everything below docs/ that is Markdown."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def all_blocks() -> dict[str, Block]:
    """Every fenced block of every page, by name."""
    found = [
        block for page in pages() for block in blocks(page.read_text(), str(page.relative_to(ROOT)))
    ]
    assert len({block.name for block in found}) == len(found), "two headings of a page have one name"
    return {block.name: block for block in found}


def blocks(text: str, page: str) -> Iterator[Block]:
    """The fenced blocks of one page, in order."""
    heading, numbers, opened = "", Counter[str](), None
    lines: list[str] = []
    for line in text.splitlines():
        fence = FENCE.match(line)
        if opened is not None and fence and not fence["language"]:
            numbers[heading] += 1
            number = f" {numbers[heading]}" if numbers[heading] > 1 else ""
            yield Block(f"{page}: {heading}{number}", opened, textwrap.dedent("\n".join([*lines, ""])))
            opened, lines = None, []
        elif opened is not None:
            lines.append(line)
        elif fence:
            opened = fence["language"]
        elif line.startswith("#"):
            heading = line.lstrip("#").strip()
    assert opened is None, f"{page}: a block under {heading!r} does not end"
