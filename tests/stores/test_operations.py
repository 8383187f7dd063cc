"""The operations of a store: what each has, what is left to a default, what wrappers pass on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol.actions import CompleteUpload
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.local import LocalStore
from ray_committer.stores.operations import OPERATIONS
from ray_committer.stores.uploads import UploadPage
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from tests.servers.fake_s3 import FakeS3, direct_store

REQUIRED = StoreOperations.__abstractmethods__
MADE_OF_OPERATIONS = {"has", "list_anew", "write_once"}
HARMLESS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("list_page", ("/d",), None),
    ("find_names", ("/d", ["a"]), None),
    ("sync", ("/d",), None),
    ("check_conditions", ("/d/a",), None),
    ("is_pending", ("/d/a", "id"), False),
    ("abort_upload", ("/d/a", "id"), None),
    ("list_uploads", ("/d",), UploadPage([])),
    ("uploaded_parts", ("/d/a", "id"), None),
    ("abort_days", ("/d",), None),
    ("revalidate", ("/d",), None),
    ("network_file_system", ("/d",), None),
    ("first_link", (["/d/a"],), None),
    ("real_path", ("/d/a",), "/d/a"),
    ("rights_below", ("/d",), None),
    ("file_system", ("/d",), ""),
    ("what_stays", ("/d", ["/d/a"], "/e"), {}),
    ("check_renames", ("/d",), None),
    ("links_files", ("/d",), False),
    ("denied_links", (["/d/a"],), []),
    ("cost_warnings", (), []),
    ("settings", (), None),
]
"""The answers of a store without these operations."""
INSTEAD = {
    "list_prefix": "list_status",
    "list_exact": "list_status",
    "list_objects": "list_files",
    "list_files_page": "list_files",
}
"""The request that takes the place of an operation that a store does not have."""
REFUSED: list[tuple[str, tuple[Any, ...]]] = [
    ("rename", ("/d/a", "/d/b")),
    ("replace", ("/d/a", "/d/b")),
    ("move_directory", ("/d", "/e")),
    ("move_whole", ("/d", "/e")),
    ("set_aside", ("/d/a", "/d/b")),
    ("delete_version", ("/d/a", "1")),
    ("delete_listed", (["/d"], lambda: True)),
    ("begin_file", ("/d/a",)),
    ("append_part", ("/d/a", "file", 0, b"1")),
    ("create", ("/d/a", b"1")),
    ("begin_upload", ("/d/a", None)),
    ("put_part", ("/d/a", "id", 1, b"1")),
    ("publish", (CompleteUpload("/d/a", "id", ()),)),
    ("delete_objects", ([MemoryStore().get_status("/")],)),
]
"""What no default can do."""


def of_memory(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.memory, name)(*args)


class LeastStore(StoreOperations):
    """The methods that a store must have, and no others; `memory` does them."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.spec, self.capabilities = self.memory.spec, self.memory.capabilities
        self.memory.mkdirs("/d")
        self.memory.write("/d/a", b"1")


for _name in REQUIRED:
    setattr(LeastStore, _name, of_memory(_name))
LeastStore.__abstractmethods__ = frozenset()


def test_each_method_is_an_operation_or_made_of_operations():
    named = {name for name, value in vars(StoreOperations).items() if callable(value)}
    assert {name for name in named if name[0] != "_"} == OPERATIONS.keys() | MADE_OF_OPERATIONS


def test_the_tables_name_every_operation():
    tables = [*REQUIRED, *(one[0] for one in (*HARMLESS, *REFUSED)), *INSTEAD]
    assert sorted(tables) == sorted(OPERATIONS)


def test_a_class_without_a_method_that_each_store_has_cannot_be_instantiated():
    class Incomplete(MemoryStore):
        delete_file = StoreOperations.delete_file

    with pytest.raises(TypeError, match=r"Incomplete .*delete_file"):
        Incomplete()


def wrapped(calls: list[StoreCall]) -> StoreOperations:
    return WrappedStore(WrappedStore(LeastStore()), before=calls.append)


@pytest.mark.parametrize(("name", "arguments", "answer"), HARMLESS)
def test_a_store_without_an_operation_gives_its_default_and_gets_no_request(
    name: str, arguments: tuple[Any, ...], answer: object
):
    calls: list[StoreCall] = []
    store = wrapped(calls)
    assert not store.has(OPERATIONS[name].default)
    assert getattr(store, name)(*arguments) == answer
    assert calls == []


@pytest.mark.parametrize("name", INSTEAD)
def test_a_default_that_is_made_of_requests_makes_them_through_the_wrapper(name: str):
    calls: list[StoreCall] = []
    listed = getattr(wrapped(calls), name)("/d/" * (name == "list_prefix") or "/d")
    assert getattr(listed, "files", listed)
    assert calls == [StoreCall(INSTEAD[name], ("/d",))]


@pytest.mark.parametrize(("name", "arguments"), REFUSED)
def test_an_operation_that_no_default_can_do_is_refused_with_nothing_done(
    name: str, arguments: tuple[Any, ...]
):
    calls: list[StoreCall] = []
    more = {"is_last": True} if name == "append_part" else {}
    with pytest.raises(OSError, match=f"has no operation {name}") as caught:
        getattr(wrapped(calls), name)(*arguments, **more)
    assert caught.value.errno == errno.ENOTSUP
    assert calls == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_wrapper_passes_on_each_operation(name: str, monkeypatch):
    """Also one that is declared tomorrow: nobody writes it in a wrapper."""
    assert getattr(ForwardingStore, name) is not OPERATIONS[name].default
    own = {one for one in (GuardedStore, WrappedStore) if name in vars(one)}
    assert own == {"advance": {GuardedStore}, "write": {WrappedStore}}.get(name, set())


def test_a_wrapper_has_what_the_store_has():
    local, s3 = LocalStore(StoreSpec("file")), direct_store(FakeS3())
    permits = Permits(RateLimit(), "h", is_here=True)
    for store in (local, s3, MemoryStore(), LeastStore()):
        both = (WrappedStore(store), GuardedStore(WrappedStore(store), permits))
        assert {name for name in OPERATIONS if store.has(OPERATIONS[name].default)} == {
            name for name in OPERATIONS if all(one.has(OPERATIONS[name].default) for one in both)
        }
    assert [one.has(StoreOperations.first_link) for one in (local, s3)] == [True, False]
    assert [one.has(StoreOperations.publish) for one in (local, s3)] == [False, True]
