"""What the kernel lets this process do with local files: link them, and take them out of a directory.

Links can be protected (``fs.protected_hardlinks``). A file is removed by the right to write in its
directory, unless the directory is sticky, or an attribute of the file or of the directory (``chattr
+i``, ``+a``) forbids it, or the file is a mount point. Source: ``may_linkat``,
``safe_hardlink_source`` and ``may_delete`` in Linux's ``fs/namei.c``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_SETTING = Path("/proc/sys/fs/protected_hardlinks")
_ACT_AS_OWNER = 1 << 3  # CAP_FOWNER
_SET_GROUP = stat.S_ISGID | stat.S_IXGRP

_AT_FDCWD = -100
_NO_FOLLOW = 0x100
_BUFFER_BYTES = 256
_ATTRIBUTES_AT = 8
_IMMUTABLE, _APPEND_ONLY, _MOUNT_ROOT = 0x10, 0x20, 0x2000

_DENIED = "this user has no permission to remove files from it"
_FIXED = "is immutable or append-only (chattr)"
_MOUNTED = "is a mount point"
_STICKY = "belongs to another user, in a directory with the sticky bit"


def denied_links(paths: Sequence[str]) -> list[str]:
    """Return the files that the kernel does not let this process link; a missing file is not one."""
    if not _is_protected() or _acts_as_owner():
        return []
    return [path for path in paths if not _may_link(path)]


def has_access_list(path: str) -> bool:
    """Return whether a directory has an access list, for itself or for what is made in it, or may have
    one that is not shown."""
    try:
        # The kernel's own attributes are these lists, of each kind.
        return any(name.startswith("system.") for name in os.listxattr(path))
    except OSError as e:
        return e.errno != errno.ENOTSUP


def process_umask() -> int | None:
    """Return the umask of this process; None if the kernel does not show it."""
    with suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text()
        return int(status.partition("\nUmask:")[2].split(None, 1)[0], 8)
    return None


def _may_link(path: str) -> bool:
    """Return whether a file is this user's, or a plain one that this user can read and write."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    if status.st_uid == os.geteuid():
        return True
    # A link to such a program would keep it after its owner has removed it.
    sets_id = status.st_mode & stat.S_ISUID or status.st_mode & _SET_GROUP == _SET_GROUP
    is_plain = stat.S_ISREG(status.st_mode) and not sets_id
    return is_plain and os.access(path, os.R_OK | os.W_OK, effective_ids=True)


def _is_protected() -> bool:
    with suppress(OSError):
        return _SETTING.read_text().strip() != "0"
    return False


def _acts_as_owner() -> bool:
    """Return whether this process has the rights of the owner of any file."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) & _ACT_AS_OWNER)
    return False


def what_stays(directory: str, files: Sequence[str]) -> dict[str, str]:
    """Say, by path, why no file can be taken out of a directory or, if only some of its `files` cannot,
    why each of these cannot; empty if nothing shows that, or if the directory is gone."""
    try:
        status = os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    # Before the permission: an attribute stops root as well, whom `access` always lets through.
    if _attributes(directory) & (_IMMUTABLE | _APPEND_ONLY):
        return {directory: _FIXED}
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return {directory: _DENIED}
    is_kept = bool(status.st_mode & stat.S_ISVTX) and status.st_uid != os.geteuid()
    is_sticky = is_kept and not _acts_as_owner()
    reasons = ((path, _why_it_stays(path, is_sticky=is_sticky)) for path in files)
    return {path: why for path, why in reasons if why is not None}


def _why_it_stays(path: str, *, is_sticky: bool) -> str | None:
    attributes = _attributes(path)
    if attributes & (_IMMUTABLE | _APPEND_ONLY):
        return _FIXED
    # A mount point can be no old file: a rename of it fails with EBUSY, also for root.
    if attributes & _MOUNT_ROOT:
        return _MOUNTED
    if is_sticky and _is_of_another(path):
        return _STICKY
    return None


def _is_of_another(path: str) -> bool:
    try:
        return os.lstat(path).st_uid != os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False


def _attributes(path: str) -> int:
    """The attributes of a file; 0 if it is gone, or if the system does not show them."""
    statx = _statx()
    if statx is None:
        return 0
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), _NO_FOLLOW, 0, buffer) != 0:
        return 0
    (attributes,) = struct.unpack_from("=Q", buffer, _ATTRIBUTES_AT)
    return int(attributes)


@cache
def _statx() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
    return function
