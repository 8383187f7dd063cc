"""Read and write local files whose names anybody may have put there.

A link to a device, a fifo without a writer, or an endless file must not hang a command or fill memory.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from ray_committer.stores.base import MOST_FILE_BYTES

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_regular(path: str) -> bytes:
    """The content of a regular file; ``OSError`` for a link, what is no file, or one too long."""
    _check(path, os.lstat(path))  # before it is opened: to open a device can have an effect
    with open(_opened(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        _check(path, status)
        # Python makes room for as many bytes as are asked for: as many as there are, and one more.
        data = file.read(status.st_size + 1)
        # It has grown since: one byte more than allowed is asked for.
        if len(data) > status.st_size:
            data += file.read(MOST_FILE_BYTES + 1 - len(data))
    if len(data) > MOST_FILE_BYTES:
        raise _refused(path, "grows while it is read")
    return data


def open_regular(path: str) -> BinaryIO:
    """Create or truncate a regular file; errors as `read_regular`."""
    file = open(_opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")  # noqa: SIM115 - for the caller
    try:
        _check(path, os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def _opened(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | _FLAGS, 0o666)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise _refused(path, "is a symbolic link") from e
        if e.errno == errno.ENXIO:  # a socket, or a fifo that nobody reads
            raise _refused(path, "is not a regular file") from e
        raise


def _check(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(status.st_mode):
        raise _refused(path, "is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path, "is not a regular file")
    if status.st_size > MOST_FILE_BYTES:
        raise _refused(path, f"has {status.st_size} bytes")


def _refused(path: str, what: str) -> OSError:
    return OSError(errno.EINVAL, f"{what}, so it is not used; move it away", path)
