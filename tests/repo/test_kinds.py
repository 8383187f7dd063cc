"""What kind of store a job stands on is asked by stores, workers and policies, and by nobody else.

A kind is a flag of `StoreCapabilities`, the class of a store, or an operation that a store may lack. The
cost of a request and the length of a name are no kinds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from ray_committer.places import choose
from ray_committer.stores.base import StoreCapabilities

PACKAGE = Path(__file__).parents[2] / "ray_committer"
MAY_ASK = ("stores", "work", "places", "promises")
"""The rooms that may ask; promises say what each kind of store must keep."""
STORES = ("memory_store.py", "faults.py", "store_contract.py")
"""The modules of testing that are stores, or say what each kind must keep."""
NO_KIND = {
    "listing_is_cheap",
    "renames_are_local",
    "deletes_trees",
    "max_path_length",
    "max_name_length",
    "max_directory_items",
    "refused_characters",
    "risk",
}
"""Costs, limits, and what is reported in words."""
KINDS = {field.name for field in fields(StoreCapabilities)} - NO_KIND | {"Versions"}
POLICIES = {"Places", "OldFiles", "OwnFiles", "Output"}
FORMS = {
    name
    for name, value in vars(choose).items()
    if isinstance(value, type) and value.__module__.startswith("ray_committer.places")
} - POLICIES
"""The forms of the policies: to ask which one it is would be to ask for the kind of the store."""


def kinds_in(source: str) -> Iterator[str]:
    """Where a module names a kind of store, as code."""
    of_stores: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ray_committer.stores"):
            of_stores |= {name.asname or name.name for name in node.names}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in KINDS - {"versions"}:
            yield ast.unparse(node)
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("capabilities.versions"):
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ray_committer.stores"):
            yield from (name.name for name in node.names if name.name in KINDS)
        if isinstance(node, ast.ImportFrom):
            yield from (name.name for name in node.names if name.name in FORMS)
        if isinstance(node, ast.Call) and _asks(node, of_stores):
            yield ast.unparse(node)


def _asks(call: ast.Call, of_stores: set[str]) -> bool:
    """Whether a call asks for the class of a store, or for an operation that it may lack."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "has":
        return any(ast.unparse(argument).startswith("StoreOperations.") for argument in call.args)
    if not isinstance(call.func, ast.Name) or call.func.id not in ("isinstance", "hasattr", "getattr"):
        return False
    names = {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
    return bool(names & of_stores) or ast.unparse(call.args[0]).split(".")[-1] in ("store", "_store")


def askers() -> dict[str, list[str]]:
    """The modules that ask and may not, each with what it names."""
    modules = {path.relative_to(PACKAGE): path for path in PACKAGE.rglob("*.py")}
    asked = {
        str(name): sorted(kinds_in(path.read_text()))
        for name, path in modules.items()
        if name.parts[0] not in MAY_ASK and not (name.parts[0] == "testing" and name.name in STORES)
    }
    return {name: kinds for name, kinds in asked.items() if kinds}


def test_no_module_asks_what_kind_of_store_it_stands_on():
    assert askers() == {}


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("if store.capabilities.has_directories: pass", ["store.capabilities.has_directories"]),
        ("kind = context.store.capabilities.versions", ["context.store.capabilities.versions"]),
        ("from ray_committer.stores.base import Versions", ["Versions"]),
        ("from ray_committer.places.objects import Uploads", ["Uploads"]),
        ("if store.has(StoreOperations.sync): pass", ["store.has(StoreOperations.sync)"]),
        ("if isinstance(self.store, S3Store): pass", ["isinstance(self.store, S3Store)"]),
        ("if isinstance(one, S3Store): pass", ["isinstance(one, S3Store)"]),
        ("if hasattr(store, 'publish'): pass", ["hasattr(store, 'publish')"]),
        ("print(report.versions, store.capabilities.listing_is_cheap, names.has('a'))", []),
        ("if isinstance(error, OSError): pass", []),
    ],
)
def test_what_a_line_asks_is_found(line: str, kinds: list[str]):
    source = f"from ray_committer.stores.s3.store import S3Store\n{line}"
    assert list(kinds_in(source)) == kinds
