"""The rights of a directory are those that were foretold, on local files and on a store in memory."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.hdfs.protocol import UMASK
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore

NOBODY = 65534
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 1, 2, 4, 16, 32


def access_list() -> bytes:
    """An access list as the kernel keeps it, by which one more user may read."""
    entries = [
        (_USER_OBJ, 7, -1),
        (_USER, 5, NOBODY),
        (_GROUP_OBJ, 5, -1),
        (_MASK, 5, -1),
        (_OTHER, 5, -1),
    ]
    packed = (_ENTRY.pack(tag, rights, who % 2**32) for tag, rights, who in entries)
    return struct.pack("<I", 2) + b"".join(packed)


def listed_rights(store: StoreOperations, path: str) -> str | None:
    (status,) = [one for one in store.list_status(os.path.dirname(path)) if one.path == path]
    return status.rights


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(params=["as it is", "by its option"])
def masked(request: pytest.FixtureRequest) -> bool:
    """Whether the store has a umask of its own."""
    return request.param == "by its option"


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
@pytest.mark.parametrize("mode", [0o755, 0o2755, 0o1777, 0o3777])
@pytest.mark.parametrize("group", [None, NOBODY])
def test_a_new_directory_has_the_rights_that_were_foretold(
    tmp_path: Path, masked: bool, mask: int, mode: int, group: int | None
):
    store = LocalStore(StoreSpec("file", "", {UMASK: f"{mask:o}"} if masked else {}))
    above = tmp_path / "above"
    above.mkdir()
    if group is not None and os.geteuid() == 0:
        os.chown(above, -1, group)
    os.chmod(above, mode)
    os.umask(0o022 if masked else mask)
    foretold = store.rights_below(str(above))
    store.mkdirs(str(above / "p=1" / "q=2"))
    assert foretold is not None
    assert listed_rights(store, str(above / "p=1")) == foretold
    assert listed_rights(store, str(above / "p=1" / "q=2")) == foretold  # inherited by what is below
    assert store.rights_below(str(above / "p=1")) == foretold


@pytest.mark.usefixtures("umask")
def test_a_directory_of_a_task_differs_in_owner_group_mode_or_set_gid(tmp_path: Path):
    store = LocalStore(StoreSpec("file"))
    tasks, parent = tmp_path / "tasks", tmp_path / "table"
    for path in (tasks, parent):
        path.mkdir()
    for name, mode in (("same", 0o755), ("closed", 0o700), ("set-gid", 0o2755), ("sticky", 0o1755)):
        (tasks / name).mkdir()
        os.chmod(tasks / name, mode)
    foretold = store.rights_below(str(parent))
    alike = {one.name for one in store.list_status(str(tasks)) if one.rights == foretold}
    assert alike == {"same"}
    parent.chmod(0o2755)
    below = store.rights_below(str(parent))
    assert {one.name for one in store.list_status(str(tasks)) if one.rights == below} == {"set-gid"}


def test_what_another_user_makes_has_other_rights(request: pytest.FixtureRequest):
    store = LocalStore(StoreSpec("file"))
    own = store.rights_below("/tmp")
    request.getfixturevalue("unprivileged")
    theirs = store.rights_below("/tmp")
    assert own is not None
    assert theirs is not None
    assert theirs.partition(":")[0] == f"{os.geteuid()}"
    assert theirs.partition(":")[2] == own.partition(":")[2]


@pytest.mark.parametrize("kind", ["access", "default"])
def test_below_an_access_list_no_rights_are_foretold(tmp_path: Path, kind: str):
    store, directory = LocalStore(StoreSpec("file")), tmp_path / "d"
    directory.mkdir()
    before = store.rights_below(str(directory))
    os.setxattr(directory, f"system.posix_acl_{kind}", access_list())
    assert before is not None
    assert store.rights_below(str(directory)) is None


def test_a_listing_asks_for_no_access_lists_and_shows_rights_only_of_directories(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def refuse(path: str) -> list[str]:
        raise AssertionError(path)

    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "d").mkdir(mode=0o700)
    store = LocalStore(StoreSpec("file"))
    monkeypatch.setattr(os, "listxattr", refuse)
    shown = {one.name: one.rights for one in store.list_status(str(tmp_path))}
    assert shown == {"a": None, "link": None, "d": f"{os.geteuid()}:{os.getegid()}:700"}


@pytest.mark.parametrize(("number", "is_known"), [(errno.ENOTSUP, True), (errno.EACCES, False)])
def test_a_file_system_without_access_lists_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, *, is_known: bool
):
    def refuse(path: str) -> list[str]:
        raise OSError(number, "refused", path)

    monkeypatch.setattr(os, "listxattr", refuse)
    assert (LocalStore(StoreSpec("file")).rights_below(str(tmp_path)) is not None) == is_known


def test_below_a_missing_directory_no_rights_are_foretold(tmp_path: Path):
    for store in (LocalStore(StoreSpec("file")), MemoryStore()):
        assert store.rights_below(str(tmp_path / "missing")) is None


def test_in_memory_rights_are_handed_down_from_where_they_are_set():
    store = MemoryStore()
    store.rights |= {"/t": "of the table", "/t/_temporary": "usual", "/t/p=1": None}
    for path in ("/t/p=1/q=1", "/t/p=2", "/t/_temporary/tasks"):
        store.mkdirs(path)
    shown = {
        path: listed_rights(store, path) for path in ("/t/p=1/q=1", "/t/p=2", "/t/_temporary/tasks")
    }
    assert shown == {"/t/p=1/q=1": None, "/t/p=2": "of the table", "/t/_temporary/tasks": "usual"}
    assert store.rights_below("/t") == "of the table"
    assert store.rights_below("/") == "usual"
    assert store.copy().rights == store.rights
