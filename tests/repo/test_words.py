"""A name says what it holds, and a sentence names what it is about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ray_committer

PACKAGE = Path(ray_committer.__file__).parent
WORDS = {"found", "one", "own", "seen", "same", "others"}
"""Names that say where a value comes from, and not what it is."""
PHRASE = re.compile(r"\b(that|those)\s+of\b", re.IGNORECASE)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def empty_names(source: str) -> Iterator[str]:
    """The variables and parameters with such a name, each with its line, and without the fields of
    values; `other` may be a parameter, which is compared with the first one."""
    nodes = list(ast.walk(ast.parse(source)))
    bodies = [part for node in nodes if isinstance(node, ast.ClassDef) for part in node.body]
    fields = [part.target for part in bodies if isinstance(part, ast.AnnAssign)]
    for node in nodes:
        match node:
            case ast.Name() if node in fields:
                continue
            case ast.Name(id=name, ctx=ast.Store()) if name in {*WORDS, "other"}:
                yield f"{node.lineno}: {name}"
            case ast.arg(arg=name) if name in WORDS:
                yield f"{node.lineno}: {name}"
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ) if name in WORDS:
                yield f"{node.lineno}: {name}"


def empty_phrases(source: str) -> Iterator[str]:
    """The docstrings in which "that of" or "those of" stands for a noun, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (phrase := PHRASE.search(ast.get_docstring(node) or "")):
            yield f"{getattr(node, 'lineno', 1)}: {phrase[0]}"


def test_each_name_says_what_it_holds() -> None:
    names = {_place(path): list(empty_names(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert {place: wrong for place, wrong in names.items() if wrong} == {}


def test_each_docstring_names_what_it_is_about() -> None:
    phrases = {_place(path): list(empty_phrases(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert {place: wrong for place, wrong in phrases.items() if wrong} == {}


def test_a_name_and_a_phrase_without_a_noun_are_found() -> None:
    source = '''
def read(own):
    """The state of a job, and that
    of another one."""
    for one in own:
        if (found := one) or [seen for seen in own]:
            other = found
    match own:
        case [*same]:
            return lambda others: same
class Value:
    """A value that is of use."""
    seen: int

    def __eq__(self, other):
        return self.seen == other.seen
'''
    names = sorted(name.partition(" ")[2] for name in empty_names(source))
    assert names == sorted([*WORDS, "other"])
    assert list(empty_phrases(source)) == ["2: that\nof"]


def _place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))
