"""The store in memory: what its operations promise, beside the local store that promises the same."""

from __future__ import annotations

import threading
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


def test_a_file_is_read_as_it_was_written(store, root):
    store.write(f"{root}/a", b"first")
    store.write(f"{root}/a", b"x")
    assert store.read(f"{root}/a") == b"x"
    status = store.get_status(f"{root}/a")
    assert (status.path, status.size, status.is_directory) == (f"{root}/a", 1, False)


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


def test_a_listing_shows_files_and_directories_once(store, root):
    store.mkdirs(f"{root}/d/e")
    for name in ("a", "d/b", "d/c", "d/e/f"):
        store.write(f"{root}/{name}", b"")
    assert names(store, root) == {"a", "d"}
    assert len(store.list_status(root)) == 2
    assert names(store, f"{root}/d") == {"b", "c", "e"}


def test_mkdirs_is_idempotent_and_names_a_file_in_the_way(store, root):
    store.mkdirs(f"{root}/x/y")
    store.mkdirs(f"{root}/x/y")
    assert store.get_status(f"{root}/x/y").is_directory
    store.write(f"{root}/f", b"")
    for path in (f"{root}/f", f"{root}/f/y"):
        with pytest.raises(FileExistsError) as caught:
            store.mkdirs(path)
        assert caught.value.filename.startswith(f"{root}/f")


def test_rename_refuses_to_replace_a_file_or_a_directory(store, root):
    store.mkdirs(f"{root}/d")
    store.write(f"{root}/a", b"new")
    store.write(f"{root}/b", b"old")
    for dest in ("b", "d", "a"):
        with pytest.raises(FileExistsError):
            store.rename(f"{root}/a", f"{root}/{dest}")
    assert store.read(f"{root}/a") == b"new"
    assert store.read(f"{root}/b") == b"old"


def test_rename_of_a_missing_file_says_so(store, root):
    with pytest.raises(FileNotFoundError):
        store.rename(f"{root}/a", f"{root}/b")


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


def test_rename_keeps_what_identifies_the_file(store, root):
    store.write(f"{root}/a", b"x")
    before = store.get_status(f"{root}/a").observation()
    store.rename(f"{root}/a", f"{root}/b")
    assert store.get_status(f"{root}/b").observation() == before
    assert store.get_status(f"{root}/a") is None


def test_replace_replaces(store, root):
    store.write(f"{root}/a", b"new")
    store.write(f"{root}/b", b"old")
    store.replace(f"{root}/a", f"{root}/b")
    assert names(store, root) == {"b"}
    assert store.read(f"{root}/b") == b"new"


def test_removing_directories_reports_what_was_there(store, root):
    store.mkdirs(f"{root}/full/empty")
    store.write(f"{root}/full/f", b"")
    assert store.remove_empty_directory(f"{root}/full") is False
    assert store.remove_empty_directory(f"{root}/full/empty") is True
    assert store.delete_directory(f"{root}/full") is True
    assert store.delete_directory(f"{root}/full") is False
    assert store.get_status(f"{root}/full/f") is None


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


def test_one_of_many_renames_to_one_name_wins():
    store = MemoryStore()
    won: list[int] = []
    ready = threading.Barrier(8)

    def rename(number: int) -> None:
        store.write(f"/{number}", b"%d" % number)
        ready.wait()
        try:
            store.rename(f"/{number}", "/dest")
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=rename, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read("/dest") == b"%d" % won[0]
    assert len(store.files()) == 8
