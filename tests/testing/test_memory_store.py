"""The store in memory: what its operations promise, beside the local store that promises the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import Identity, MemoryStore

KINDS = ("memory", "flat", "local")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def root(kind: str, tmp_path: Path) -> str:
    return str(tmp_path) if kind == "local" else "/bucket"


@pytest.fixture
def store(kind: str, root: str) -> StoreOperations:
    """A store with one empty directory, `root`."""
    if kind == "local":
        return LocalStore(StoreSpec("file"))
    store = MemoryStore(real_directories=kind == "memory")
    store.mkdirs(root)
    return store


def names(store: StoreOperations, path: str) -> set[str]:
    return {status.name for status in store.list_status(path)}


def test_what_is_missing_is_told_by_name(store, root):
    assert store.get_status(f"{root}/a") is None
    for operation in (store.read, store.list_status):
        with pytest.raises(FileNotFoundError) as caught:
            operation(f"{root}/a")
        assert caught.value.filename == f"{root}/a"
    assert store.delete_file(f"{root}/a") is False
    assert store.delete_directory(f"{root}/a") is False
    assert store.remove_empty_directory(f"{root}/a") is False


def test_a_directory_is_no_file_and_a_file_no_directory(store, root):
    store.mkdirs(f"{root}/d")
    store.write(f"{root}/f", b"")
    for operation in (store.read, store.delete_file, lambda path: store.write(path, b"")):
        with pytest.raises(IsADirectoryError):
            operation(f"{root}/d")
    for operation in (store.list_status, store.delete_directory, store.remove_empty_directory):
        with pytest.raises(NotADirectoryError):
            operation(f"{root}/f")


def test_rename_and_replace_create_no_parents_where_there_are_directories(store, root, kind):
    store.write(f"{root}/a", b"x")
    if kind == "flat":
        store.rename(f"{root}/a", f"{root}/missing/b")
        assert names(store, f"{root}/missing") == {"b"}
        return
    for operation in (store.rename, store.replace):
        with pytest.raises(FileNotFoundError):
            operation(f"{root}/a", f"{root}/missing/b")
    with pytest.raises(FileNotFoundError):
        store.write(f"{root}/missing/b", b"")
    assert names(store, root) == {"a"}


def test_on_a_flat_store_a_directory_ends_with_its_last_file(kind, store, root):
    store.mkdirs(f"{root}/marked")
    for directory in ("marked", "unmarked"):
        if kind == "local" or kind == "memory":
            store.mkdirs(f"{root}/{directory}")
        store.write(f"{root}/{directory}/f", b"")
        store.delete_file(f"{root}/{directory}/f")
    assert names(store, root) == ({"marked"} if kind == "flat" else {"marked", "unmarked"})


@pytest.mark.parametrize("identity", Identity)
def test_a_store_tells_its_kind_of_identity_and_no_other(identity):
    store = MemoryStore(identity=identity)
    store.write("/a", b"x")
    first = store.get_status("/a")
    told = {
        Identity.ETAG: first.etag if first.etag == first.version else None,
        Identity.GENERATION: first.etag if first.etag != first.version else None,
        Identity.MODIFICATION_TIME: first.modified_milliseconds,
        Identity.FILE_ID: first.file_id,
    }
    assert {kind for kind, value in told.items() if value is not None} == {identity} - {
        Identity.SIZE_ONLY
    }
    store.write("/a", b"y")
    same = store.get_status("/a").observation() == first.observation()
    assert same is (identity is Identity.SIZE_ONLY)


def test_the_clock_of_the_caller_gives_the_modification_times():
    store = MemoryStore(clock=iter([5, 7]).__next__)
    store.write("/a", b"")
    store.write("/b", b"")
    assert [status.modified_milliseconds for status in store.list_status("/")] == [5, 7]


def test_a_copy_has_a_life_of_its_own():
    store = MemoryStore(identity=Identity.ETAG)
    store.write("/a", b"x")
    copy = store.copy()
    assert copy.get_status("/a") == store.get_status("/a")
    copy.write("/b", b"y")
    store.delete_file("/a")
    assert copy.files() == {"/a": b"x", "/b": b"y"}
    assert store.files() == {}
