"""A text for people marks each path in it, so that all of them become URLs of the store."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ray_committer
from tests.bare_paths import bare_paths

PACKAGE = Path(ray_committer.__file__).parent
TEXT = re.compile(r"(?!(Value|Runtime|Assertion)Error)[A-Z]\w*Error|notice|notice_once|advise")
"""The functions whose arguments are texts for people."""
PATH = re.compile(
    r"(.*[._])?(path|directory|destination|dest|source|place|temporary)|"
    r"(.*\.)?(log|root|tasks|temporaries|definition|link|aside|manifests)|"
    r"([\w.]+\.)?(join|parent|entry|content|manifest|temporary_directory)\(.*\)"
)
"""Expressions that are paths of a store, by their last name."""
OF_THIS_MACHINE = {
    "report/event_log.py": "a file for events",
    "spark/session.py": "a jar",
    "promises/spark_lines.py": "a jar",
}
"""Modules whose texts are about local files."""


def unmarked(source: str) -> Iterator[str]:
    """The paths in texts that are not marked, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and TEXT.fullmatch(ast.unparse(node.func).rpartition(".")[2]):
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue) and part.conversion != ord("r"):
                    value = ast.unparse(part.value)
                    if PATH.fullmatch(value):
                        yield f"{part.lineno}: {value}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("f'{path}: is gone'", ["1: path"]),
        ("f'{mark(path)}: is gone'", []),
        ("f'{mark(path)}: is gone and {entry.dest} is not there'", ["1: entry.dest"]),
        ("f'{table.entry(version)}: is gone'", ["1: table.entry(version)"]),
        ("f'{path!r}: is no name'", []),
        ("f'{job_id}: is gone'", []),
    ],
)
def test_a_path_that_is_not_marked_is_found(text: str, found: list[str]):
    assert [*unmarked(f"raise ManifestError({text})")] == found


def test_each_path_in_a_text_is_marked():
    files = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}
    found = {
        name: [*unmarked(file.read_text())]
        for name, file in files.items()
        if name not in OF_THIS_MACHINE
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/t/a: is gone", ["/t/a:"]),
        ("\ufdd0/t/a b\ufdd1: is gone, and \ufdd0/t\ufdd1 is not there", []),
        ("\ufdd0/t/a\ufdd1: is gone, and /t is not there (/t/b)", ["/t", "/t/b)"]),
        ("no answer ([Errno 5] broken: '/t/a')", ["/t/a')"]),
        ("run: ray-committer abort gs://b/t, or and/or", []),
        ("'/t': is no name", []),
    ],
)
def test_a_path_without_a_mark_is_found_in_a_text(text: str, found: list[str]):
    assert bare_paths(text) == found
