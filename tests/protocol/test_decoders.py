"""Types that several threads may decode are prepared when their module is imported.

msgspec 0.22 ends the process if several threads decode a type for the first time at the same moment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import ray_committer
from ray_committer.protocol.prepared import prepare

PACKAGE = Path(ray_committer.__file__).parent


def module_of(path: Path) -> str:
    return ".".join(("ray_committer", *path.relative_to(PACKAGE).with_suffix("").parts))


def named_types(text: str) -> Iterator[str]:
    """The types that functions of a module decode by their names."""
    for function in (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)):
        for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
            if ast.unparse(call.func).rpartition(".")[2].lstrip("_") in ("decode", "decoded", "ask"):
                given = [*call.args, *(one.value for one in call.keywords if one.arg == "type")]
                for argument in given:
                    yield from (one.id for one in ast.walk(argument) if isinstance(one, ast.Name))
            if ast.unparse(call.func) == "msgspec.json.Decoder":
                yield f"a decoder in {function.name}"


def prepared_types(text: str) -> set[str]:
    """The names in the calls of `prepare`, and in the decoders, at the top of a module."""
    found: set[str] = set()
    for statement in ast.parse(text).body:
        for call in (one for one in ast.walk(statement) if isinstance(one, ast.Call)):
            if ast.unparse(call.func) in ("prepare", "msgspec.json.Decoder") and not isinstance(
                statement, ast.FunctionDef | ast.ClassDef
            ):
                found |= {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
    return found


TEXTS = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {path: text for path, text in TEXTS.items() if "msgspec" in text}


def structs_of(text: str) -> set[str]:
    """The names of the structs that a module defines."""
    classes = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ClassDef))
    return {one.name for one in classes if "msgspec.Struct" in map(ast.unparse, one.bases)}


STRUCTS = {path: structs_of(text) for path, text in MODULES.items()}


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_each_struct_that_is_decoded_by_its_name_is_prepared(path: Path):
    names = set(named_types(MODULES[path]))
    here = names & STRUCTS[path]
    assert here <= prepared_types(MODULES[path])
    for name in names - here:
        for owner in (one for one, structs in STRUCTS.items() if name in structs and name[0] != "_"):
            assert name in prepared_types(MODULES[owner]), f"{name}: in {module_of(owner)}"
    if path.name != "prepared.py":
        assert not [name for name in names if name.startswith("a decoder in ")]


def test_a_struct_that_is_not_prepared_is_found():
    text = "def f(data):\n    return msgspec.json.decode(data, type=A), msgspec.json.Decoder(A)"
    assert {"A", "a decoder in f"} <= set(named_types(text))
    assert prepared_types(text) == set()
    assert prepared_types("prepare(A, list[B])\n_D = msgspec.json.Decoder(C)") >= {"A", "B", "C"}


def test_what_is_prepared_can_be_decoded():
    class Here(msgspec.Struct):
        a: int

    prepare(Here, list[Here])
    assert msgspec.json.decode(b'[{"a":1}]', type=list[Here]) == [Here(1)]
