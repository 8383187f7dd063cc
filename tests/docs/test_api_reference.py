"""The pages below docs/api show every public name, and each of them has a docstring."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGES = ROOT / "docs/api"
SHOWN = re.findall(
    r"^::: (\S+)$", "\n".join(page.read_text() for page in PAGES.glob("*.md")), flags=re.MULTILINE
)
LISTED = re.findall(
    r"^\| `(ray_committer[a-z_.]*)` \| (.*) \|$",
    (ROOT / "docs/python_api.md").read_text(),
    flags=re.MULTILINE,
)
WHOLE = ("ray_committer.errors", "ray_committer.events")
"""Modules of which a page shows all."""


def public() -> Iterator[str]:
    """The names that docs/python_api.md calls public."""
    for module, listed in LISTED:
        names = importlib.import_module(module).__all__ if "__all__" in listed else named(listed)
        yield from (f"{module}.{name}" for name in names if name != "__version__")


def named(listed: str) -> list[str]:
    return re.findall(r"`(\w+)`", listed)


def test_a_page_shows_each_public_name_once():
    assert len(LISTED) > 10
    assert len(SHOWN) == len(set(SHOWN))
    same = {
        f"ray_committer.options.{name}": f"ray_committer.{name}"
        for name in ("CommitOptions", "CommittedTask")
    }
    missing = [
        name
        for name in public()
        if same.get(name, name) not in SHOWN and name.rpartition(".")[0] not in WHOLE
    ]
    assert missing == []
    assert [module for module in WHOLE if module not in SHOWN] == []


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in WHOLE])
def test_what_is_shown_has_a_docstring_and_so_has_each_public_method(name: str):
    node = definition(name)
    assert ast.get_docstring(node), name
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]
    silent = ("WrappedStore", "MemoryStore", "ChaosExecutor", "StoreContract", "Datasink")
    if isinstance(node, ast.ClassDef) and not name.endswith(silent):
        assert [one.name for one in methods if not ast.get_docstring(one)] == []


def definition(name: str) -> ast.ClassDef | ast.FunctionDef:
    """The source of a name; modules that need Spark or Ray are not imported."""
    module, _, last = name.rpartition(".")
    for path in (source(module), *sources_that_it_imports(module, last)):
        for node in ast.parse(path.read_text()).body:
            is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == last
            if is_definition and not is_overload(node):
                return node
    raise AssertionError(f"{name} is not there")


def is_overload(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "overload" for one in node.decorator_list)


def sources_that_it_imports(module: str, name: str) -> list[Path]:
    imports = (
        node
        for node in ast.walk(ast.parse(source(module).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    )
    return [source(node.module) for node in imports if name in [one.name for one in node.names]]


def source(module: str) -> Path:
    place = ROOT / module.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
