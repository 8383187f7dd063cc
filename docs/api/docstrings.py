"""Docstrings as Markdown: fields and arguments as lists, examples as code, public names as links.

An extension of Griffe, which reads the sources for the pages in this directory and imports nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import griffe

FIELDS = re.compile(r"[a-z_]+(, [a-z_]+)*: ")
NAME = re.compile(r"(?<!`)`([A-Za-z_]+)`(?!`)")
CONSTANT = re.compile(r"_?[A-Z][A-Z_]+")


class Docstrings(griffe.Extension):
    """Rewrites each docstring of the package after its tree is complete."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings of all modules, and name the values of constants in signatures."""
        places = {str(name): f"{pkg.path}.{name}" for name in pkg.exports or ()}
        for module in ("errors", "events"):
            places |= {name: f"{pkg.path}.{module}.{name}" for name in pkg[module].classes}
        for one in _objects(pkg):
            if isinstance(one, griffe.Class):
                _list_options(one)
            if one.docstring:
                one.docstring.value = markdown(one.docstring.value, places)
            for argument in one.parameters if isinstance(one, griffe.Function) else ():
                argument.default = _value(one.module, str(argument.default)) or argument.default


def _list_options(table: griffe.Class) -> None:
    """Show the rows of a table of options as fields: each with its default, and in the docstring."""
    lines = []
    for name, one in table.attributes.items():
        called = one.value
        if not isinstance(called, griffe.ExprCall) or str(called.function) != "option":
            continue
        default, _kind, about, *_ = [*called.arguments, "", "''"]
        more = one.docstring.value if one.docstring else ""
        text = f"{ast.literal_eval(str(about))} {more}".replace("\n", "\n    ").strip()
        lines.append(f"{name}: {text}")
        one.value = default
        one.docstring = None
    if lines and table.docstring:
        table.docstring.value += "\n\n" + "\n".join(lines)


def markdown(docstring: str, places: dict[str, str]) -> str:
    """A docstring as Markdown; `places` are the full paths of names that have a place on a page."""
    return "\n\n".join(_part(part, places) for part in re.split(r"\n\s*\n", docstring))


def _part(part: str, places: dict[str, str]) -> str:
    if part.startswith(">>> "):
        return f"```pycon\n{part}\n```"
    linked = NAME.sub(lambda found: _link(found[1], places), part)
    lines = linked.splitlines()
    if all(line.startswith(" ") or FIELDS.match(line) for line in lines):
        return "\n".join(map(_item, lines))
    return linked


def _item(line: str) -> str:
    if line.startswith(" "):
        return line
    names, text = line.split(": ", 1)
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {text}"


def _link(name: str, places: dict[str, str]) -> str:
    return f"[`{name}`][{places[name]}]" if name in places else f"`{name}`"


def _value(module: griffe.Module, name: str) -> str | None:
    """The value of a constant that a module defines or imports."""
    if not CONSTANT.fullmatch(name) or name not in module.members:
        return None
    found = module.members[name]
    constant = found.final_target if isinstance(found, griffe.Alias) else found
    return str(constant.value) if isinstance(constant, griffe.Attribute) else None


def _objects(parent: griffe.Module | griffe.Class) -> Iterator[griffe.Object]:
    yield parent
    for one in parent.members.values():
        if isinstance(one, griffe.Module | griffe.Class):
            yield from _objects(one)
        elif isinstance(one, griffe.Object):
            yield one
