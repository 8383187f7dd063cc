"""The files that this process can link if the kernel protects links (``fs.protected_hardlinks``).

Source: ``may_linkat`` and ``safe_hardlink_source`` in Linux's ``fs/namei.c``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_SETTING = Path("/proc/sys/fs/protected_hardlinks")
_ACT_AS_OWNER = 1 << 3  # CAP_FOWNER
_SET_GROUP = stat.S_ISGID | stat.S_IXGRP


def denied_links(paths: Sequence[str]) -> list[str]:
    """Return the files that the kernel does not let this process link; a missing file is not one."""
    if not _is_protected() or acts_as_owner():
        return []
    return [path for path in paths if not _may_link(path)]


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


def acts_as_owner() -> bool:
    """Return whether this process has the rights of the owner of any file."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) & _ACT_AS_OWNER)
    return False
