"""Tests use no private name of the package, and replace nothing in it.

A test that does shows how the code is written, not what it does. Two things may be changed: a constant
in capitals, and `open_job.open_store`, to put a store with faults below the public functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OWN = ("ray_committer", "tests")
PRIVATE = re.compile(r"_(?!_)\w*")
PRIVATE_PATH = re.compile(r"\bray_committer(?:\.\w+)*\._(?!_)\w+")
MAY_CHANGE = re.compile(r"ray_committer\.jobs\.open_job\.open_store|.*\.([A-Z][A-Z0-9_]*|__version__)")
SETS = ("setattr", "delattr", "patch", "object")
"""The names of functions that change an attribute: pytest's, Python's and those of `unittest.mock`."""
SELF = ("self", "cls", "other")

Names = dict[str, str]
"""What the names of a module stand for that it imports: dotted names."""


def test_no_test_changes_the_code_or_uses_what_is_private():
    own = Path(__file__)
    found = {file: wrong_in(file.read_text()) for file in TESTS.rglob("*.py") if file != own}
    assert {file: wrong for file, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("monkeypatch.setattr(open_job, 'open_store', x)", ""),
        ("monkeypatch.setattr(open_job, 'LIMIT', 1)", ""),
        ("monkeypatch.setattr('ray_committer.jobs.open_job.LIMIT', 1)", ""),
        ("monkeypatch.setattr(os, 'link', x)", ""),
        ("server.answer = x", ""),
        ("self._x = 1", ""),
        ("monkeypatch.setattr(open_job, 'open_it', x)", "changes ray_committer.jobs.open_job.open_it"),
        ("monkeypatch.setattr(open_job, '_LIMIT', 1)", "changes ray_committer.jobs.open_job._LIMIT"),
        ("monkeypatch.setattr(open_job, name, 1)", "changes ray_committer.jobs.open_job.?"),
        ("monkeypatch.setattr(name, 1)", "changes ?"),
        ("monkeypatch.setattr('ray_committer.events.ignore', x)", "changes ray_committer.events.ignore"),
        ("patch.object(open_job.Job, 'run', x)", "changes ray_committer.jobs.open_job.Job.run"),
        ("mock.patch('tests.tiers.parts')", "changes tests.tiers.parts"),
        ("open_job.open_it = x", "changes ray_committer.jobs.open_job.open_it"),
        ("store._files = {}", "changes store._files"),
        ("del store._files", "changes store._files"),
        ("open_job._x()", "uses ray_committer.jobs.open_job._x"),
        ("from ray_committer.events import _x", "uses ray_committer.events._x"),
        ("code = 'ray_committer.events._x()'", "uses ray_committer.events._x"),
    ],
)
def test_what_a_line_does_is_found(line: str, wrong: str):
    source = f"import os\nfrom ray_committer.jobs import open_job\n{line}"
    assert wrong_in(source) == ([f"3: {wrong}"] if wrong else [])


def wrong_in(source: str) -> list[str]:
    """What a test module must not do, each with its line."""
    tree = ast.parse(source)
    names = dict(pair for node in ast.walk(tree) for pair in _imported(node))
    return [
        f"{node.lineno}: {what}"  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        for what in (*_uses(node, names), *_changes(node, names))
    ]


def _uses(node: ast.AST, names: Names) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=found) if _is_own(module):
            yield from (f"uses {module}.{one.name}" for one in found if PRIVATE.fullmatch(one.name))
        case ast.Constant(value=str(text)) if found := PRIVATE_PATH.search(text):
            yield f"uses {found[0]}"
        case ast.Attribute(attr=name, ctx=ast.Load()) if PRIVATE.fullmatch(name):
            if _is_own(path := _path(node, names)):
                yield f"uses {path}"


def _changes(node: ast.AST, names: Names) -> Iterator[str]:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            path = _path(node, names)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *_]) if name in SETS:
            path = _patched(node, names)
        case _:
            return
    first, last = path.partition(".")[0], path.rpartition(".")[2]
    of_others = {*SELF, *(one.partition(".")[0] for one in names.values())} - {*OWN}
    is_private = PRIVATE.fullmatch(last) and first not in of_others
    if path == "?" or is_private or (_is_own(path) and not MAY_CHANGE.fullmatch(path)):
        yield f"changes {path}"


def _patched(call: ast.Call, names: Names) -> str:
    """What a call changes; its first argument is a dotted name, or an object, before an attribute."""
    match call.args:
        case [ast.Constant(value=str(path)), *_]:
            return path if _is_own(path) else ""
        case [target, ast.Constant(value=str(attribute)), *_]:
            return f"{_path(target, names)}.{attribute}"
        case [target, _, _]:
            return f"{_path(target, names)}.?"
    return "?"


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
    if isinstance(node, ast.Import):
        for one in node.names:
            root = one.name.partition(".")[0]
            yield (one.asname, one.name) if one.asname else (root, root)


def _path(node: ast.expr, names: Names) -> str:
    """An expression as a dotted name, with what its first name stands for."""
    first, *rest = ast.unparse(node).split(".")
    return ".".join([names.get(first, first), *rest])


def _is_own(path: str) -> bool:
    return path.split(".")[0] in OWN
