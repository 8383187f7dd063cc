"""Replace a public step of ray_committer by a broken one, wherever its loaded modules refer to it.

``from module import function`` copies the reference, so all modules and their classes are searched. A
mutant yields such replacements; each refers to the step as an imported object, so that a step that moves
takes its mutants along, and one that goes fails at the import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from inspect import Parameter, isfunction, signature
from typing import Any

Swaps = Iterator[tuple[object, object]]
"""Pairs of a function, a method, a property or a constant and what takes its place."""

Mutant = Callable[[], Swaps]


def apply(mutant: Mutant) -> None:
    """Make the mistake in this process."""
    for original, broken in mutant():
        for owner, name in places(original, broken):
            setattr(owner, name, broken)


def places(original: object, broken: object) -> list[tuple[Any, str]]:
    """The modules and classes that refer to `original`, each with its name there.

    ``ValueError`` if there is none, or if `broken` takes other arguments: its tests would fail for that.
    """
    modules = [one for name, one in [*sys.modules.items()] if name.split(".")[0] == "ray_committer"]
    values = [value for module in modules for value in vars(module).values()]
    classes = {id(value): value for value in values if isinstance(value, type)}.values()
    own = [one for one in classes if one.__module__.split(".")[0] == "ray_committer"]
    found = [(owner, name) for owner in (*modules, *own) for name in _names(owner, original)]
    if not found or not _takes_the_same(original, broken):
        raise ValueError(f"{original!r}: cannot be replaced by {broken!r}")
    return found


def _names(owner: Any, original: object) -> list[str]:
    return [name for name, value in vars(owner).items() if value is original]


def _takes_the_same(original: object, broken: object) -> bool:
    if not (isfunction(original) and isfunction(broken)):
        return type(original) is type(broken)
    takes = signature(broken).parameters
    takes_any = any(one.kind is Parameter.VAR_POSITIONAL for one in takes.values())
    return takes_any or [*takes] == [*signature(original).parameters]
