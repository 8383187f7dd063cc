"""Types of what is stored are prepared when a module is imported.

msgspec 0.22 ends the process if several threads decode a type for the first time at the same moment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ray_committer.protocol

PACKAGE = Path(ray_committer.protocol.__file__).parent


def unprepared(text: str) -> Iterator[str]:
    """Decodings of a type by its name, and decoders that a function makes."""
    tree = ast.parse(text)
    for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
        for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
            name = ast.unparse(call.func)
            is_typed = any(word.arg == "type" for word in call.keywords)
            if name == "msgspec.json.Decoder" or (name == "msgspec.json.decode" and is_typed):
                yield f"{function.name}: {ast.unparse(call)}"


def test_no_type_is_decoded_for_the_first_time_in_a_function():
    for path in sorted(PACKAGE.glob("*.py")):
        assert list(unprepared(path.read_text())) == [], path.name


def test_such_a_decoding_is_found():
    text = "def f(data):\n    return msgspec.json.decode(data, type=A), msgspec.json.Decoder(A)"
    assert len(list(unprepared(text))) == 2
