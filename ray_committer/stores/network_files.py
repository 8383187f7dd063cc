"""File systems that other machines use as well, and how to list a directory there as it is.

A machine may keep listings and names of such a file system for a minute. A change of its own in a
directory makes it ask for that directory again: a name is made there, and removed. The name begins with
a dot, so readers leave it out; so do our own listings.
"""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path

LOOK_PREFIX = ".ray-committer-look-"
"""How the names begin that are made to be removed."""

_KINDS = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "coda", "ceph", "glusterfs"),
        *("lustre", "beegfs", "fhgfs", "gpfs", "panfs", "orangefs", "pvfs2", "wekafs", "acfs", "gfs2"),
        *("ocfs2", "9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs"),
    )
)
_OF_CONTAINERS = "fuse.fuse-overlayfs"
"""Where containers without root keep their files: on a disk of this machine."""
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT, errno.ENOSPC)


class Mounts:
    """Which paths are on a network file system; a mount is looked up once."""

    def __init__(self) -> None:
        self._kinds: dict[int, str | None] = {}

    def kind(self, path: str) -> str | None:
        """The type of the network file system that the nearest directory that is there is on, as the
        kernel calls it; None if it is on another one."""
        device = _device(path)
        if device not in self._kinds:
            self._kinds[device] = network_kind(_type_of(path))
        return self._kinds[device]


def network_kind(kind: str) -> str | None:
    """`kind`, a type of file systems, if it is one of a network or, since nobody can tell what is behind
    it, one of a process; else None."""
    if kind == _OF_CONTAINERS:
        return None
    return kind if kind in _KINDS or kind == "fuse" or kind.startswith("fuse.") else None


def type_in(mount_table: str, mount: str) -> str:
    """The type of the file system of a `mount`, by its number in what ``/proc/self/mountinfo`` holds;
    empty if it is not there."""
    for line in mount_table.splitlines():
        fields, _, source = line.partition(" - ")
        if fields.split(" ", 1)[0] == mount:
            return source.split(" ", 1)[0]
    return ""


def mount_of(opened: int) -> str:
    """The kernel's number of the mount that an open directory is on; empty where it does not tell."""
    with suppress(OSError):
        lines = Path(f"/proc/self/fdinfo/{opened}").read_text().splitlines()
        return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")
    return ""


def look_anew(path: str) -> None:
    """Make a name in the directory `path` and remove it or, if the directory is not there, in the one
    above it first. Where no name may be made, nothing is done."""
    try:
        _make_and_remove_a_name(path)
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above != path:
            look_anew(above)  # this machine may remember that nothing was there
            with suppress(FileNotFoundError):
                _make_and_remove_a_name(path)


def remove_names(path: str) -> bool:
    """Remove the names that were made in the directory `path` and are left; False if it has others."""
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
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except NotADirectoryError:
        return
    except OSError as e:
        if e.errno in _NOT_ALLOWED:
            return
        raise
    with suppress(FileNotFoundError):  # who removes the directory removes it, too
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
