"""The local store: what its operations promise."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import PreflightError, StoreRefusedError
from ray_committer.promises.directories import MOVES_WHOLE_DIRECTORIES
from ray_committer.promises.promise import OwnDirectory
from ray_committer.stores import local_renames as local_module
from ray_committer.stores.base import StoredState, StoreSpec
from ray_committer.stores.local import PAGE_BYTES, LocalStore
from ray_committer.stores.local_renames import link_and_unlink, rename_without_replacing
from ray_committer.testing.faults import LinkingStore
from tests.network_client import NetworkClient


@pytest.fixture(params=[rename_without_replacing, link_and_unlink])
def local(request: pytest.FixtureRequest) -> LocalStore:
    return LocalStore(StoreSpec("file"), rename=request.param)


def test_rename_refuses_to_replace(local: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(FileExistsError):
        local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b").read_text() == "old"


def test_rename_refuses_to_replace_another_link_to_the_same_file(local: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    with pytest.raises(FileExistsError):
        local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").exists()


def test_rename_creates_no_parents(local: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(FileNotFoundError):
        local.rename(str(tmp_path / "a"), str(tmp_path / "missing" / "b"))
    assert (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("dest", "error"),
    [
        ("empty", FileExistsError),
        ("full", FileExistsError),
        ("file", FileExistsError),
        ("link", FileExistsError),
        ("dangling", FileExistsError),
        ("missing/p", FileNotFoundError),
        ("file/p", NotADirectoryError),
        ("d/inner/p", OSError),
    ],
)
def test_a_directory_is_moved_whole_only_to_a_name_where_nothing_is(
    store: LocalStore, tmp_path: Path, dest: str, error: type[OSError]
):
    for name in ("d/inner", "full/d", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("d/a", "d/.a.crc", "file"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nothing")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error) as caught:
        store.move_whole(str(tmp_path / "d"), str(tmp_path / dest))
    assert type(caught.value) is error
    assert sorted(tmp_path.rglob("*")) == before
    store.move_whole(str(tmp_path / "d"), str(tmp_path / "p"))
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [".a.crc", "a", "inner"]
    assert not (tmp_path / "d").exists()
    with pytest.raises(FileNotFoundError):
        store.move_whole(str(tmp_path / "d"), str(tmp_path / "q"))


def test_no_directory_is_moved_to_another_file_system(store: LocalStore, tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("x")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        with pytest.raises(StoreRefusedError, match="is on another file system"):
            store.move_whole(str(tmp_path / "d"), f"{other}/p")
        assert os.listdir(other) == []
    assert (tmp_path / "d" / "a").read_text() == "x"


def test_a_directory_in_memory_is_moved_whole(store: LocalStore):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        assert "one succeeded" in MOVES_WHOLE_DIRECTORIES.check(OwnDirectory(store, root))


@pytest.mark.parametrize("store", [LinkingStore(StoreSpec("file")), "no flag"], ids=["links", "no flag"])
def test_no_directory_is_moved_whole_where_files_are_renamed_by_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: LocalStore
):
    """A process that sleeps between the link and the unlink has the directory open."""
    if not isinstance(store, LocalStore):
        monkeypatch.setattr(local_module, "RENAMEAT2", None)
        store = LocalStore(StoreSpec("file"))
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError) as caught:
        store.move_whole(str(tmp_path / "d"), str(tmp_path / "p"))
    assert caught.value.errno == errno.ENOTSUP
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize("rename", [rename_without_replacing, link_and_unlink])
def test_rename_across_file_systems_is_refused_not_copied(rename, tmp_path: Path):
    other = Path("/dev/shm") / f"ray-committer-{os.getpid()}"
    other.write_text("x")
    try:
        if other.stat().st_dev == tmp_path.stat().st_dev:
            pytest.fail("/dev/shm is on the same device as the temporary directory")
        with pytest.raises(StoreRefusedError, match="another file system"):
            rename(str(other), str(tmp_path / "b"))
        assert other.exists()
        assert not (tmp_path / "b").exists()
    finally:
        other.unlink()


def test_a_commit_across_file_systems_stops_before_it_begins_and_copies_nothing(
    dest: Path, write_job, tree
):
    write_job({0: {"p=1/a": "x", "p=2/b": "y"}})
    other = Path("/dev/shm") / f"ray-committer-{os.getpid()}"
    other.mkdir()
    (dest / "p=1").symlink_to(other)
    try:
        with pytest.raises(PreflightError, match=r"/p=1: 1 directories .* on another file system"):
            ray_committer.commit_job(str(dest))
        assert list(other.iterdir()) == []
        assert tree() == {}
        assert [job.state for job in ray_committer.list_jobs(str(dest))] == ["running"]
        (dest / "p=1").unlink()
        ray_committer.commit_job(str(dest))
        assert tree() == {"p=1/a": "x", "p=2/b": "y"}
    finally:
        shutil.rmtree(other)


def test_what_is_synced_is_a_file_or_a_directory_and_must_be_there(store: LocalStore, tmp_path: Path):
    (tmp_path / "f").write_text("x")
    store.sync(str(tmp_path / "f"))
    store.sync(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        store.sync(str(tmp_path / "missing"))


def test_a_file_system_that_cannot_sync_says_which_path(store: LocalStore):
    with pytest.raises(OSError, match="cannot be forced to disk") as caught:
        store.sync("/proc/self/status")
    assert caught.value.filename == "/proc/self/status"


def test_a_file_system_without_links_is_refused(monkeypatch, tmp_path: Path):
    def no_links(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "a").write_text("x")
    with pytest.raises(StoreRefusedError, match="without replacing"):
        link_and_unlink(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").exists()


def changed_state(store: LocalStore, root: Path) -> LocalStore:
    """The store once a state has changed on it."""
    (root / "state").mkdir(exist_ok=True)
    (root / "state" / "a.state").touch()
    store.advance(str(root / "state"), StoredState("a.state"), "b.state")
    assert [path.name for path in (root / "state").iterdir()] == ["b.state"]
    return store


def test_a_change_of_a_state_tells_whether_files_are_renamed_by_links(monkeypatch, tmp_path: Path):
    spec = StoreSpec("file")
    assert changed_state(LocalStore(spec), tmp_path).links_files(str(tmp_path)) is False
    assert changed_state(LocalStore(spec, rename=link_and_unlink), tmp_path).links_files(str(tmp_path))
    monkeypatch.setattr(local_module, "RENAMEAT2", None)  # an older kernel has none
    store = LocalStore(spec)
    assert store.links_files(str(tmp_path)) is False  # nothing has told
    assert changed_state(store, tmp_path).links_files(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_file_system_that_can_do_neither_is_refused_once_a_state_has_changed(
    monkeypatch, tmp_path: Path
):
    monkeypatch.setattr(local_module, "RENAMEAT2", None)
    store = changed_state(LocalStore(StoreSpec("file")), tmp_path)

    def no_links(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreRefusedError, match="without replacing"):
        store.links_files(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("rename", [rename_without_replacing, link_and_unlink])
def test_a_state_that_another_process_has_changed_is_not_changed_again(rename, tmp_path: Path):
    store = changed_state(LocalStore(StoreSpec("file"), rename=rename), tmp_path)
    with pytest.raises(FileNotFoundError):
        store.advance(str(tmp_path / "state"), StoredState("a.state"), "c.state")
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["b.state"]


def test_replace_removes_the_stale_checksum_of_hadoop(store: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    (tmp_path / ".b.crc").write_text("checksum of old")
    store.replace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "new"
    assert not (tmp_path / ".b.crc").exists()


def test_rename_removes_the_stale_checksum_of_hadoop(local: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("new")
    (tmp_path / ".b.crc").write_text("checksum of a file that is gone")
    local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_rename_that_is_refused_leaves_the_other_files_checksum(local: LocalStore, tmp_path: Path):
    for name in ("a", "b", ".b.crc"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "a", "b"]


def test_a_directory_that_is_named_like_a_checksum_is_in_nobodys_way(local: LocalStore, tmp_path: Path):
    (tmp_path / "a").write_text("new")
    (tmp_path / ".b.crc").mkdir()
    local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "b"]


def test_a_file_whose_stale_checksum_cannot_be_removed_is_not_moved(
    monkeypatch, local: LocalStore, tmp_path: Path
):
    def denied(path: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    (tmp_path / "a").write_text("new")
    (tmp_path / ".b.crc").write_text("checksum of a file that is gone")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", denied)
        with pytest.raises(PermissionError, match=r"stale checksum \.b\.crc cannot be removed"):
            local.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "a"]


def test_a_listing_leaves_out_checksums_of_files_that_are_there(store: LocalStore, tmp_path: Path):
    for name in ("b", ".b.crc", ".c.crc", ".d", "..d.crc", ".crc"):
        (tmp_path / name).write_text("x")
    assert sorted(one.name for one in store.list_status(str(tmp_path))) == [".c.crc", ".crc", ".d", "b"]


def test_a_listing_holds_beside_its_result_little_more_than_the_names(store: LocalStore, tmp_path: Path):
    """It is the largest that the driver of a commit of very many tasks holds."""
    names = [f"task_1_m_{number:06d}-manifest.json" for number in range(1_000)]
    for name in names:
        (tmp_path / name).write_text("{}")
    store.list_status(str(tmp_path))
    tracemalloc.start()
    try:
        found = store.list_status(str(tmp_path))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == len(names)
    assert peak - held < 1.5 * sum(map(sys.getsizeof, names))


def test_deleting_a_file_deletes_its_checksum(store: LocalStore, tmp_path: Path):
    (tmp_path / "b").write_text("old")
    (tmp_path / ".b.crc").write_text("checksum")
    assert store.delete_file(str(tmp_path / "b")) is True
    assert store.delete_file(str(tmp_path / "b")) is False
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_of_a_file_that_is_put_aside_is_removed(store: LocalStore, tmp_path: Path):
    (tmp_path / "b").write_text("old")
    (tmp_path / ".b.crc").write_text("checksum")
    with pytest.raises(FileNotFoundError):
        store.set_aside(str(tmp_path / "b"), str(tmp_path / "aside" / "0"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "b"]
    (tmp_path / "aside").mkdir()
    store.set_aside(str(tmp_path / "b"), str(tmp_path / "aside" / "0"))
    assert [path.name for path in tmp_path.iterdir()] == ["aside"]
    assert sorted(path.name for path in (tmp_path / "aside").iterdir()) == ["0"]


def test_what_is_aside_stays_if_another_process_has_put_it_there(store: LocalStore, tmp_path: Path):
    (tmp_path / "aside").mkdir()
    (tmp_path / "aside" / "0").write_text("old")
    with pytest.raises(FileNotFoundError):
        store.set_aside(str(tmp_path / "b"), str(tmp_path / "aside" / "0"))
    assert (tmp_path / "aside" / "0").read_text() == "old"


def test_a_second_name_of_a_file_that_is_aside_already_is_put_aside_too(
    store: LocalStore, tmp_path: Path
):
    """As a power cut may leave it; of a rename between two names of one file the kernel keeps both."""
    (tmp_path / "b").write_text("old")
    (tmp_path / "aside").mkdir()
    os.link(tmp_path / "b", tmp_path / "aside" / "0")
    store.set_aside(str(tmp_path / "b"), str(tmp_path / "aside" / "0"))
    assert [path.name for path in tmp_path.iterdir()] == ["aside"]
    assert (tmp_path / "aside" / "0").read_text() == "old"


def test_a_directory_that_is_named_like_the_checksum_of_what_is_put_aside_stays(
    store: LocalStore, tmp_path: Path
):
    (tmp_path / "b").write_text("old")
    (tmp_path / ".b.crc").mkdir()
    (tmp_path / "aside").mkdir()
    store.set_aside(str(tmp_path / "b"), str(tmp_path / "aside" / "0"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "aside"]


def test_a_name_that_has_no_room_for_a_checksum_is_renamed_replaced_and_deleted(
    store: LocalStore, tmp_path: Path
):
    source, dest = tmp_path / "a", tmp_path / ("n" * 255)
    for operation in (store.rename, store.replace):
        source.write_text("x")
        operation(str(source), str(dest))
    assert store.delete_file(str(dest)) is True


def test_a_directory_that_goes_while_one_is_made_in_it_is_missing_not_in_the_way(
    monkeypatch, store: LocalStore, tmp_path: Path
):
    (tmp_path / "job").mkdir()
    make = os.mkdir

    def removed_by_another(path: str, mode: int = 0o777) -> None:
        if os.path.basename(path) == "job":
            os.rename(path, tmp_path / ".gone")
            raise FileExistsError(errno.EEXIST, "exists", path)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", removed_by_another)
    with pytest.raises(FileNotFoundError, match="was removed at the same time"):
        store.mkdirs(str(tmp_path / "job"))


def test_status_of_nothing_is_none_even_below_a_file(store: LocalStore, tmp_path: Path):
    (tmp_path / "f").write_text("x")
    assert store.get_status(str(tmp_path / "missing")) is None
    assert store.get_status(str(tmp_path / "f" / "below")) is None


_AS_NOBODY = """
import os, sys
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink, rename_without_replacing
directory = sys.argv[1]
os.setuid(65534)
try:
    {}
except PermissionError as e:
    print("denied", e.filename)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(
    ("mode", "request_of_nobody"),
    [
        (0o744, 'LocalStore(StoreSpec("file")).list_status(directory)'),
        (0o1777, 'rename_without_replacing(directory + "/a", directory + "/b")'),
        (0o777, 'link_and_unlink(directory + "/a", directory + "/b")'),
    ],
    ids=["may be listed, but not entered", "as /tmp", "fs.protected_hardlinks"],
)
def test_what_is_denied_is_no_refusal_of_the_file_system_and_says_the_whole_path(
    mode: int, request_of_nobody: str
):
    """A status of a listed name, a rename of what is another's, and a link to it."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (directory / "a").write_text("of root")
        directory.chmod(mode)
        code = _AS_NOBODY.format(request_of_nobody)
        command = [sys.executable, "-c", code, str(directory)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        is_protected = Path("/proc/sys/fs/protected_hardlinks").read_text().strip() != "0"
        is_denied = is_protected or mode != 0o777
        assert result.stdout == (f"denied {directory}/a\n" if is_denied else ""), result.stderr
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize(("umask", "directory", "file"), [("022", 0o755, 0o644), ("007", 0o770, 0o660)])
def test_hadoops_umask_counts_where_it_is_given(tmp_path: Path, umask: str, directory: int, file: int):
    store = LocalStore(StoreSpec("file", storage_options={"fs.permissions.umask-mode": umask}))
    before = os.umask(0o077)
    try:
        for _ in range(2):
            store.mkdirs(f"{tmp_path}/a/b/c")
        store.write(f"{tmp_path}/a/b/c/file", b"data")
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c", "a/b/c/file")
    ]
    assert modes == [directory] * 3 + [file]
    with pytest.raises(FileExistsError):
        store.mkdirs(f"{tmp_path}/a/b/c/file")
    with pytest.raises(FileExistsError):
        store.mkdirs(f"{tmp_path}/a/b/c/file/d")


def test_a_directory_keeps_the_group_that_it_inherits(tmp_path: Path):
    store = LocalStore(StoreSpec("file", storage_options={"fs.permissions.umask-mode": "022"}))
    tmp_path.chmod(0o2755)
    store.mkdirs(f"{tmp_path}/a/b")
    assert (tmp_path / "a/b").stat().st_mode & stat.S_ISGID


def test_the_file_system_of_a_path_is_that_of_the_nearest_directory_that_is_there(store, tmp_path: Path):
    assert store.file_system(str(tmp_path)) == store.file_system(str(tmp_path / "not" / "there"))
    assert store.file_system("/proc/not/there") == store.file_system("/proc")
    assert store.file_system("/proc") != store.file_system(str(tmp_path))


def test_a_file_that_only_looks_like_a_checksum_is_a_file(local: LocalStore, tmp_path: Path):
    for name in ("a", ".a.crc", ".b.crc", ".crc", "c.crc"):
        (tmp_path / name).write_text(name)
    names = {status.name for status in local.list_status(str(tmp_path))}
    assert names == {"a", ".b.crc", ".crc", "c.crc"}
    assert {status.name for status in local.list_files(str(tmp_path))} == names


def test_a_task_may_write_a_file_that_looks_like_a_checksum(dest: Path, write_job, tree):
    write_job({0: {"p=1/.own.crc": "x", "p=1/a": "y"}})
    ray_committer.commit_job(str(dest))
    assert tree() == {"p=1/.own.crc": "x", "p=1/a": "y"}


# One request


def test_a_page_is_all_that_one_request_to_the_kernel_returns(store: LocalStore, tmp_path: Path):
    names = [f"{number:03d}" + "x" * 97 for number in range(300)]
    for name in names[:200]:
        (tmp_path / name).touch()
    (tmp_path / ".hidden.crc").touch()
    (tmp_path / "hidden").touch()
    assert {status.name for status in store.list_page(str(tmp_path)) or ()} == {*names[:200], "hidden"}
    for name in names[200:]:
        (tmp_path / name).touch()
    assert store.list_page(str(tmp_path)) is None
    assert len(store.list_status(str(tmp_path))) == 301


def test_the_kernel_returns_a_page_by_one_request(tmp_path: Path):
    """As many names as `list_page` takes for a page, each by the first request."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(PAGE_BYTES // (27 + 100)):
        (tmp_path / (f"{number:03d}" + "x" * 97)).touch()
    directory, buffer = os.open(tmp_path, os.O_RDONLY), ctypes.create_string_buffer(PAGE_BYTES)
    try:
        first = libc.syscall(getdents64(), directory, buffer, PAGE_BYTES)
        assert 0 < first <= PAGE_BYTES
        assert libc.syscall(getdents64(), directory, buffer, PAGE_BYTES) == 0
    finally:
        os.close(directory)


def getdents64() -> int:
    return {"x86_64": 217, "aarch64": 61}[platform.machine()]


def test_names_are_found_whatever_else_is_there(store: LocalStore, tmp_path: Path):
    for number in range(2000):
        (tmp_path / f"part-{number}").touch()
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=2").symlink_to(tmp_path / "nowhere")
    found = store.find_names(str(tmp_path), ["p=1", "p=2", "p=3", "x" * 255])
    assert found is not None
    assert {(one.name, one.is_directory, one.is_link) for one in found} == {
        ("p=1", True, False),
        ("p=2", False, True),
    }
    for wrong, error in (("missing", FileNotFoundError), ("part-1", NotADirectoryError)):
        with pytest.raises(error):
            store.find_names(str(tmp_path / wrong), ["a"])


def test_on_a_network_file_system_no_page_is_trusted(tmp_path: Path):
    client = NetworkClient()
    assert client.list_page(str(tmp_path)) is None
    assert client.find_names(str(tmp_path), ["a"]) is None
