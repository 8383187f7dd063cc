"""Network file systems: which they are, and how their directories are listed as they are."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.network_files import (
    LOOK_PREFIX,
    Mounts,
    look_anew,
    mount_of,
    network_kind,
    remove_names,
    type_in,
)

TABLE = """\
36 25 0:32 / /shared rw,relatime shared:1 master:2 - nfs4 host:/export rw,vers=4.2
360 25 8:1 /a\\040b /local rw,relatime - ext4 /dev/sda1 rw
37 25 0:40 / /bucket rw,nosuid - fuse.sshfs x rw,user_id=0
"""


class OnNetwork(LocalStore):
    """Every directory is on NFS."""

    def __init__(self) -> None:
        super().__init__(StoreSpec("file"), mounts=Mounts(lambda _: "nfs4"))


@pytest.mark.parametrize(
    ("mount", "kind"), [("36", "nfs4"), ("360", "ext4"), ("37", "fuse.sshfs"), ("3", ""), ("", "")]
)
def test_the_table_of_mounts_tells_the_type(mount: str, kind: str):
    assert type_in(TABLE, mount) == kind


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "9p", "fuse.s3fs", "fuse"]
)
def test_what_other_machines_use_as_well_is_a_network_file_system(kind: str):
    assert network_kind(kind) == kind


@pytest.mark.parametrize(
    "kind",
    ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.fuse-overlayfs", "fuseblk", "nfsd", ""],
)
def test_a_disk_of_this_machine_is_none(kind: str):
    assert network_kind(kind) is None


def test_the_kernel_tells_the_mount_of_a_directory(tmp_path: Path):
    opened = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    try:
        assert type_in(Path("/proc/self/mountinfo").read_text(), mount_of(opened)) == "proc"
    finally:
        os.close(opened)
    assert Mounts().kind(str(tmp_path / "not" / "there")) is None


@pytest.mark.parametrize(
    ("kind", "is_whole"),
    [
        *((kind, True) for kind in ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "f2fs")),
        *((kind, True) for kind in ("bcachefs", "overlay")),
        *((kind, False) for kind in ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "gpfs", "9p")),
        *((kind, False) for kind in ("fuse", "fuse.sshfs", "fuse.fuse-overlayfs", "fuseblk")),
        *((kind, False) for kind in ("exfat", "vfat", "ntfs3", "hfsplus", "never-heard-of", "")),
    ],
)
def test_a_directory_is_moved_whole_only_on_disks_whose_type_is_known(
    tmp_path: Path, kind: str, *, is_whole: bool
):
    table = TABLE.replace("ext4", kind)
    store = LocalStore(StoreSpec("file"), mounts=Mounts(lambda _: type_in(table, "360")))
    (tmp_path / "d").mkdir()
    if is_whole:
        store.move_whole(str(tmp_path / "d"), str(tmp_path / "p"))
    else:
        with pytest.raises(OSError) as caught:
            store.move_whole(str(tmp_path / "d"), str(tmp_path / "p"))
        assert caught.value.errno == errno.ENOTSUP
    assert [path.name for path in tmp_path.iterdir()] == ["p" if is_whole else "d"]


def test_to_look_anew_changes_the_directory_and_leaves_nothing(tmp_path: Path):
    os.utime(tmp_path, ns=(0, 0))
    look_anew(str(tmp_path))
    assert tmp_path.stat().st_mtime_ns != 0
    assert list(tmp_path.iterdir()) == []


def test_of_a_directory_that_is_not_there_the_one_above_is_changed(tmp_path: Path):
    os.utime(tmp_path, ns=(0, 0))
    look_anew(str(tmp_path / "not" / "there"))
    assert tmp_path.stat().st_mtime_ns != 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_may_not_be_changed_is_listed_as_it_is(request: pytest.FixtureRequest):
    directory = tempfile.mkdtemp(dir="/tmp")
    request.addfinalizer(lambda: shutil.rmtree(directory))
    Path(directory, "a").touch()
    os.chmod(directory, 0o555)
    request.getfixturevalue("unprivileged")
    assert [one.name for one in OnNetwork().list_anew(directory)] == ["a"]


def test_a_file_is_no_directory_also_when_it_is_looked_at_anew(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        OnNetwork().list_anew(str(tmp_path / "file"))


def test_names_that_were_made_to_look_are_listed_by_nobody(tmp_path: Path):
    (tmp_path / f"{LOOK_PREFIX}1").touch()
    (tmp_path / "a").touch()
    for store in (LocalStore(StoreSpec("file")), OnNetwork()):
        assert [one.name for one in store.list_status(str(tmp_path))] == ["a"]
        assert [one.path for one in store.list_files(str(tmp_path))] == [str(tmp_path / "a")]


def test_names_that_were_left_keep_no_directory(tmp_path: Path):
    store = OnNetwork()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / f"{LOOK_PREFIX}1").touch()
    assert store.remove_empty_directory(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_a_directory_with_other_names_is_left_as_it_is(tmp_path: Path):
    (tmp_path / "d").mkdir()
    names = {f"{LOOK_PREFIX}1", "a"}
    for name in names:
        (tmp_path / "d" / name).touch()
    assert not OnNetwork().remove_empty_directory(str(tmp_path / "d"))
    assert not remove_names(str(tmp_path / "d"))
    assert set(os.listdir(tmp_path / "d")) == names


def test_a_directory_is_deleted_while_another_process_looks_into_it(monkeypatch, tmp_path: Path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    rmdir, looks = os.rmdir, iter(range(2))

    def look_first(path, **options):
        if Path(path).name == "e" and next(looks, None) is not None:
            (tmp_path / "d" / "e" / f"{LOOK_PREFIX}1").touch()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", look_first)
    assert OnNetwork().delete_directory(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_a_rename_into_a_directory_that_this_machine_does_not_know_yet_is_made(tmp_path: Path):
    class MadeMeanwhile(OnNetwork):
        def revalidate(self, path: str) -> None:
            os.mkdir(path)

    (tmp_path / "a").write_text("a")
    MadeMeanwhile().rename(str(tmp_path / "a"), str(tmp_path / "new" / "a"))
    assert (tmp_path / "new" / "a").read_text() == "a"


def test_a_state_is_read_anew(tmp_path: Path):
    looked: list[str] = []

    class Noting(OnNetwork):
        def revalidate(self, path: str) -> None:
            looked.append(path)

    (tmp_path / "x.state").touch()
    Noting().read_state(str(tmp_path))
    assert looked == [str(tmp_path)]
