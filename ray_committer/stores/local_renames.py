"""Rename files of a local file system without replacing any.

This is done by ``renameat2(RENAME_NOREPLACE)``, otherwise by a hard link and an unlink. A crash between
these two can be recognised: both names have one inode, and the same rename removes the old name. A check
followed by a rename would not be atomic.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress

from ray_committer.errors import StoreRefusedError, mark
from ray_committer.stores.local_rights import denied_links

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def rename_without_replacing(source: str, dest: str) -> None:
    """Rename atomically, failing if `dest` exists; `StoreRefusedError` if that is not possible."""
    try:
        if renamed_by_flag(source, dest):
            return
    except FileExistsError:
        if not _have_one_inode(source, dest):
            raise
    link_and_unlink(source, dest)


def renamed_by_flag(source: str, dest: str) -> bool:
    """Rename, failing if `dest` exists; False where the kernel or the file system has no such flag."""
    if RENAMEAT2 is None:
        return False
    ends = (_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(dest))
    if RENAMEAT2(*ends, _RENAME_NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    if number == errno.EXDEV:
        raise _another_file_system(source, dest)
    raise OSError(number, os.strerror(number), source, None, dest)


def link_and_unlink(source: str, dest: str, *, between: Callable[[], None] = lambda: None) -> None:
    """Rename by a hard link and an unlink; `StoreRefusedError` on a file system without links. It ends a
    call that was interrupted `between` the two, where a test can act; the source may be gone by then."""
    # By the open directory: a process that sleeps in the meantime touches no file of a later job, whose
    # directory has the same name.
    directory, name = os.path.split(source)
    try:
        opened = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY)
    except OSError as e:
        raise OSError(e.errno, e.strerror, source, None, dest) from e
    try:
        _link(opened, name, source, dest)
        between()
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)


def _link(opened: int, name: str, source: str, dest: str) -> None:
    """Link a name in an open directory, where `source` is, unless `dest` is the same file."""
    try:
        os.link(name, dest, src_dir_fd=opened, follow_symlinks=False)
    except FileExistsError as e:
        if not _have_one_inode(source, dest):
            raise FileExistsError(e.errno, e.strerror, source, None, dest) from e
    except OSError as e:
        refusal = _refusal(e.errno, source, dest)
        raise (refusal or OSError(e.errno, e.strerror, source, None, dest)) from e


def _have_one_inode(source: str, dest: str) -> bool:
    """Whether names in two directories lead to one file. In one directory they can be one name, where
    the file system does not distinguish upper and lower case."""
    try:
        above = [os.stat(os.path.dirname(path) or ".") for path in (source, dest)]
        return not os.path.samestat(*above) and os.path.samestat(os.lstat(source), os.lstat(dest))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _refusal(number: int | None, source: str, dest: str) -> StoreRefusedError | None:
    if number == errno.EXDEV:
        return _another_file_system(source, dest)
    if number == errno.EPERM and denied_links([source]):
        return None
    if number in (*_NOT_SUPPORTED, errno.EPERM, errno.EMLINK):
        return StoreRefusedError(
            f"{mark(os.path.dirname(dest))}: the file system can neither rename without replacing nor "
            f"link files ({os.strerror(number or 0)}), so a commit could overwrite data",
            "use another file system",
        )
    return None


def _another_file_system(source: str, dest: str) -> StoreRefusedError:
    return StoreRefusedError(
        f"{mark(dest)}: is on another file system than {mark(source)}, so a rename would be a copy",
        "let the tasks write to the destination's own file system",
    )


def _load_renameat2() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


RENAMEAT2 = _load_renameat2()
