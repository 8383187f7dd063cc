"""What HDFS over RPC and WebHDFS do alike: limits, permissions, and errors by Java's exceptions."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ray_committer.errors import StoreRefusedError, StoreUnavailableError, ThrottledError
from ray_committer.stores.base import FileStatus, StoreCapabilities, StoreSpec
from ray_committer.stores.owner import Owner
from ray_committer.stores.state_names import NamedStates

CAPABILITIES = StoreCapabilities(
    listing_is_cheap=True,
    max_path_length=8000,
    max_name_length=255,
    max_directory_items=1024 * 1024,
    deletes_trees=True,
)
UMASK = "fs.permissions.umask-mode"
MAX_ITEMS = "dfs.namenode.fs-limits.max-directory-items"
LISTED = "dfs.ls.limit"
LISTED_AT_ONCE = 1000
"""The names that the NameNode lists at once, under one lock, unless ``dfs.ls.limit`` says otherwise."""

_BY_EXCEPTION = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AlreadyBeingCreatedException": errno.EEXIST,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "SecurityException": errno.EACCES,
    "InvalidToken": errno.EACCES,
    "InvalidPathException": errno.EINVAL,
    "PathComponentTooLongException": errno.ENAMETOOLONG,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
}
_BY_TEXT = {
    "must both be": errno.EEXIST,  # a rename of a file to a directory
    "is non empty": errno.ENOTEMPTY,
    "encryption zone": errno.EXDEV,
    "Pathname too long": errno.ENAMETOOLONG,
}
_TOO_BUSY = ("RetriableException", "CallQueueOverflowException")
_NOT_SERVING = ("StandbyException", "ObserverRetryOnActiveException", "SafeModeException")


class NameNodeStore(NamedStates):
    """The operations of a NameNode that both stores build on the same few requests."""

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.capabilities = capabilities(spec.storage_options)
        self._file_mode, self._directory_mode = permissions(spec.storage_options)
        self._owner = Owner(self._owners)
        self.page_names = min(LISTED_AT_ONCE, _whole(spec.storage_options, LISTED, LISTED_AT_ONCE))

    def list_files(self, path: str) -> list[FileStatus]:
        return files_below(self.list_status, path)

    def mkdirs(self, path: str) -> None:
        try:
            self._make_directory(path)
        except NotADirectoryError as e:
            raise FileExistsError(errno.EEXIST, "a file is in the way", path) from e

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._rename(source, dest, overwrite=False)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        try:
            self._rename(source, dest, overwrite=True)
        except FileNotFoundError as e:
            # It may have been made, then repeated: clients of RPC and WebHDFS, and gateways, repeat a
            # request when a connection breaks.
            raise StoreUnavailableError(e.filename, f"replace: {e.strerror}") from e

    def move_whole(self, source: str, dest: str) -> None:
        self._rename(source, dest, overwrite=False)

    def set_aside(self, path: str, place: str) -> None:
        self.rename(path, place)

    def delete_file(self, path: str) -> bool:
        return self._delete(path, recursive=False)

    def delete_directory(self, path: str) -> bool:
        return self._delete(path, recursive=True)

    def remove_empty_directory(self, path: str) -> bool:
        status = self.get_status(path)
        if status is None:
            return False
        if not status.is_directory:
            raise not_a_directory(path)
        try:
            return self._delete(path, recursive=False)
        except OSError as e:
            if e.errno == errno.ENOTEMPTY:
                return False
            raise

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """Say whether no file can be taken out of a directory: the NameNode checks the permission to
        delete a name before it looks whether there is one."""
        try:
            self.delete_file(f"{directory}/.removable-{uuid.uuid4().hex}")
        except PermissionError as e:
            why = (e.strerror or "").partition(", inode=")[0]  # it names the name that is not there
            return {directory: f"this user has no permission to remove files from it ({why})"}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {}

    def rights_below(self, path: str) -> str | None:
        return self._owner.rights_below(path, f"{self._directory_mode:o}")

    def _owners(self, path: str) -> tuple[str, str] | None:
        """Return owner and group; None if nothing is at the path, or if it has an access list."""
        raise NotImplementedError

    def _make_directory(self, path: str) -> None:
        raise NotImplementedError

    def _rename(self, source: str, dest: str, *, overwrite: bool) -> None:
        raise NotImplementedError

    def _delete(self, path: str, *, recursive: bool) -> bool:
        raise NotImplementedError


def remote_error(exception: str, message: str, path: str, dest: str | None = None) -> OSError:
    """Make the error for a Java `exception`, whose name can include its package. The NameNode did
    nothing if that is `ThrottledError` or, as in safe mode, `StoreUnavailableError`."""
    name = exception.rpartition(".")[2].rpartition("$")[2]
    text = message.partition("\n")[0]
    # HDFS calls for patience by an exception: nothing was done, so the request may be made again.
    if name in _TOO_BUSY:
        return ThrottledError(path)
    if name in _NOT_SERVING:
        return StoreUnavailableError(path, f"{name}: {text}")
    # By the exception's name and not by its text: texts differ between releases of Hadoop.
    number = _number(name, text)
    if number is None:
        return OSError(errno.EIO, f"{name}: {text}", path, None, dest)
    return OSError(number, text or os.strerror(number), path, None, dest)


def permissions(storage_options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the permission bits of new files and directories: clients apply the umask, not HDFS."""
    umask = str(storage_options.get(UMASK, "022"))
    try:
        bits = int(umask, 8)
    except ValueError as e:
        raise StoreRefusedError(f"{UMASK}: {umask!r} is not an octal number", "write it like 027") from e
    # The NameNode sets what the client sends, so without this all files would be writable for everybody.
    return 0o666 & ~bits, 0o777 & ~bits


def capabilities(storage_options: Mapping[str, Any]) -> StoreCapabilities:
    """Return HDFS's capabilities, with the NameNode's limit of names per directory if it is given."""
    limit = _whole(storage_options, MAX_ITEMS, CAPABILITIES.max_directory_items)
    return replace(CAPABILITIES, max_directory_items=limit)


def _whole(storage_options: Mapping[str, Any], name: str, default: int | None) -> int:
    number = str(storage_options.get(name, default))
    if not (number.isascii() and number.isdigit()):
        raise StoreRefusedError(f"{name}: {number!r} is not a number", "write it like 1048576")
    return int(number)


def files_below(list_status: Callable[[str], list[FileStatus]], path: str) -> list[FileStatus]:
    """List all files and links below a directory; one that disappears meanwhile has none."""
    files, level = [], [path]
    while level:
        below: list[str] = []
        for directory in level:
            try:
                listed = list_status(directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
            files += [status for status in listed if not status.is_directory or status.is_link]
            below += [status.path for status in listed if status.is_directory and not status.is_link]
        level = below
    return files


def not_a_directory(path: str) -> NotADirectoryError:
    """Make the error for a file in place of a directory, which HDFS itself would list or delete."""
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def _number(name: str, text: str) -> int | None:
    if "Path is not a file" in text:  # a directory was read; the exception says that no file was found
        return errno.EISDIR
    if name in _BY_EXCEPTION:
        return _BY_EXCEPTION[name]
    return next((number for part, number in _BY_TEXT.items() if part in text), None)
