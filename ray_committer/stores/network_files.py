"""Network file systems, and how to get a fresh listing of a directory there.

A machine can cache listings and names of such a file system for a minute. After its own change in a
directory it reads that directory again, so a name is made there and removed. The name begins with a dot,
so readers ignore it; this package's own listings also leave it out.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_PREFIX = ".ray-committer-look-"
"""The prefix of the names that are made only to be removed."""

_KINDS = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "coda", "ceph", "glusterfs"),
        *("lustre", "beegfs", "fhgfs", "gpfs", "panfs", "orangefs", "pvfs2", "wekafs", "acfs", "gfs2"),
        *("ocfs2", "9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs"),
    )
)
_OF_DISKS = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "f2fs", "bcachefs", "overlay")
)
"""The file systems of this machine's own disks and memory where a directory can be moved whole."""
_OF_CONTAINERS = "fuse.fuse-overlayfs"
"""The file system of containers without root, which is on a disk of this machine."""
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT, errno.ENOSPC)


class Mounts:
    """Finds the type of the file system that a path is on, by `type_of`; looks up each mount once."""

    def __init__(self, type_of: Callable[[str], str] | None = None) -> None:
        self._type_of = type_of or _type_of
        self._types: dict[int, str] = {}

    def kind(self, path: str) -> str | None:
        """Return the kernel's name of the type of the network file system of the nearest existing
        directory; None if that is not a network file system."""
        return network_kind(self._type(path))

    def moves_whole(self, path: str) -> bool:
        """Return whether the nearest existing directory is on a disk of this machine, of a type whose
        renames of directories are known."""
        return self._type(path) in _OF_DISKS

    def _type(self, path: str) -> str:
        device = _device(path)
        if device not in self._types:
            # By device: the table of mounts can be long, and a commit asks for each directory.
            self._types[device] = self._type_of(path)
        return self._types[device]


def network_kind(kind: str) -> str | None:
    """Return the file system type `kind` if it is a network's, or a process's (FUSE), because a network
    may be behind that; otherwise None."""
    if kind == _OF_CONTAINERS:
        return None
    return kind if kind in _KINDS or kind == "fuse" or kind.startswith("fuse.") else None


def type_in(mount_table: str, mount: str) -> str:
    """Return the file system type of a `mount`, given by its number in the text of
    ``/proc/self/mountinfo``; empty if it is not there."""
    for line in mount_table.splitlines():
        fields, _, source = line.partition(" - ")
        if fields.split(" ", 1)[0] == mount:
            return source.split(" ", 1)[0]
    return ""


def mount_of(opened: int) -> str:
    """Return the kernel's number of the mount of an open directory; empty if it is not shown."""
    with suppress(OSError):
        lines = Path(f"/proc/self/fdinfo/{opened}").read_text().splitlines()
        return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")
    return ""


def look_anew(path: str) -> None:
    """Make a name in the directory `path` and remove it; if the directory is not there, first in its
    parent. Does nothing where no name can be made."""
    try:
        _make_and_remove_a_name(path)
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above != path:
            look_anew(above)  # this machine may have cached that nothing was there
            with suppress(FileNotFoundError):
                _make_and_remove_a_name(path)


def remove_names(path: str) -> bool:
    """Remove leftover names of `look_anew` from the directory `path`; False if it has others."""
    names = os.listdir(path)
    if any(not name.startswith(LOOK_PREFIX) for name in names):
        return False
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(path, name))
    return True


def _make_and_remove_a_name(directory: str) -> None:
    path = os.path.join(directory, f"{LOOK_PREFIX}{uuid.uuid4().hex}")
    try:
        # Exclusive: it is the change of the directory that makes the client ask the server again.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except NotADirectoryError:
        return
    except OSError as e:
        if e.errno in _NOT_ALLOWED:
            return
        raise
    with suppress(FileNotFoundError):  # removed by a process that removes the directory
        os.unlink(path)


def _device(path: str) -> int:
    while True:
        try:
            return os.stat(path).st_dev
        except OSError:
            if path == os.path.dirname(path):
                raise
            path = os.path.dirname(path)


def _type_of(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    opened = os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        return type_in(Path("/proc/self/mountinfo").read_text(), mount_of(opened))
    except OSError:
        return ""
    finally:
        os.close(opened)
