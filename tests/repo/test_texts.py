"""A text for people marks each path in it, so that all of them become URLs of the store."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ray_committer
from ray_committer import errors
from ray_committer.errors import RayCommitterError
from tests.bare_paths import bare_paths

PACKAGE = Path(ray_committer.__file__).parent
OURS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RayCommitterError)
}
TEXT = {*OURS, "cls", "notice", "notice_once", "advise"}
"""The functions whose arguments are texts for people."""
MARKS = {"mark", "why", "failed_request"}
"""The functions that mark paths."""
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
        if isinstance(node, ast.Call) and _name(node) in TEXT:
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue) and part.conversion != ord("r"):
                    value = ast.unparse(part.value)
                    if PATH.fullmatch(value):
                        yield f"{part.lineno}: {value}"


def marked_in_vain(source: str) -> Iterator[str]:
    """The errors with marks that are not of this package, so that nothing replaces the marks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _name(node).endswith("Error") and _name(node) not in OURS:
            calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
            yield from (f"{one.lineno}: {_name(node)}" for one in calls if _name(one) in MARKS)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


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


def test_a_mark_in_an_error_of_another_package_is_found():
    assert [*marked_in_vain("raise click.UsageError(f'{mark(path)}: is gone')")] == ["1: UsageError"]


def test_only_errors_of_this_package_have_marks():
    found = {file.name: [*marked_in_vain(file.read_text())] for file in PACKAGE.rglob("*.py")}
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
