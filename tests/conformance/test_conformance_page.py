"""The page of conformance names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text("utf-8"))
    assert len(named) > 80
    missing = [f"{file}::{name}" for file, name in named if name not in names_in(ROOT / file)]
    assert missing == []


def test_every_test_of_this_directory_is_on_the_page():
    named = set(re.findall(r"::(\w+)`", PAGE.read_text("utf-8")))
    written = {
        name
        for path in Path(__file__).parent.glob("test_*.py")
        if path.name != Path(__file__).name
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert written - named == set()
