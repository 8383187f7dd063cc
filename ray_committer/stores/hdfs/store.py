"""HDFS over its own RPC, through hdfs-native: no Java, one connection to the NameNode for all threads.

The rename is Hadoop's ``rename2``. It is atomic, and never replaces, makes a parent, or moves into a
directory. It keeps the modification time, which proves after a lost answer that it took place.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import ParamSpec, TypeVar

import hdfs_native

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import FileStatus, StoreSpec
from ray_committer.stores.deadline import DEADLINE_SECONDS, DeadlineThreads, first_deadline
from ray_committer.stores.hdfs.protocol import (
    capabilities,
    denied_removals,
    files_below,
    not_a_directory,
    permissions,
    remote_error,
    unknown_replace,
)
from ray_committer.stores.state_names import NamedStates

DEFAULT_PORT = 8020
LISTED_AT_ONCE = 1000

_SETTINGS = {
    # The client tries each NameNode once and reports the result: `GuardedStore` waits.
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "200",
}
_RPC_ERROR = re.compile(r'(?:Fatal)?RPCError\("([\w.$]*)", "(.*)"\)', re.DOTALL)
_NAMED: dict[type[Exception], str] = {
    FileNotFoundError: "FileNotFoundException",
    FileExistsError: "FileAlreadyExistsException",
}
_NO_ACCESS = ("SASLError", "GSSAPIError", "NoSASLMechanism")

P = ParamSpec("P")
T = TypeVar("T")


class HdfsStore(NamedStates):
    """`StoreOperations` on ``hdfs://``; 0.06 to 0.1 milliseconds of CPU per rename.

    `storage_options` are Hadoop's own settings; the files in ``HADOOP_CONF_DIR`` are also read.
    """

    def __init__(
        self,
        spec: StoreSpec,
        *,
        retry_seconds: float = RETRY_SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.spec = spec
        self.capabilities = capabilities(spec.storage_options)
        self._client = _open(spec)
        self._threads = DeadlineThreads(
            deadline_seconds, first_seconds=min(deadline_seconds, first_deadline(retry_seconds))
        )
        self._file_mode, self._directory_mode = permissions(spec.storage_options)

    def get_status(self, path: str) -> FileStatus | None:
        try:
            return _status(self._call(path, self._client.get_file_info, path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list_status(self, path: str) -> list[FileStatus]:
        statuses = self._client.list_status(path)
        listed: list[FileStatus] = []
        # The client reads the listing page by page, so each page has a deadline of its own.
        while batch := self._call(path, lambda: list(islice(statuses, LISTED_AT_ONCE))):
            listed += map(_status, batch)
        if len(listed) == 1 and listed[0].path == path:
            raise not_a_directory(path)
        return listed

    def list_files(self, path: str) -> list[FileStatus]:
        return files_below(self.list_status, path)

    def read(self, path: str) -> bytes:
        data: bytes = self._call(path, lambda: self._client.read(path).read())
        return data

    def write(self, path: str, data: bytes) -> None:
        self._call(path, self._write, path, data)

    def mkdirs(self, path: str) -> None:
        try:
            self._call(path, self._client.mkdirs, path, self._directory_mode, create_parent=True)
        except NotADirectoryError as e:
            raise FileExistsError(errno.EEXIST, "a file is in the way", path) from e

    def rename(self, source: str, dest: str, version: str | None = None) -> None:  # noqa: ARG002
        self._call(source, self._client.rename, source, dest)

    def replace(
        self,
        source: str,
        dest: str,
        version: str | None = None,  # noqa: ARG002
        *,
        old: str | None = None,  # noqa: ARG002
    ) -> None:
        try:
            self._call(source, self._client.rename, source, dest, overwrite=True)
        except FileNotFoundError as e:
            raise unknown_replace(e) from e

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

    def what_stays(
        self,
        directory: str,
        files: Sequence[str],  # noqa: ARG002
        home: str,  # noqa: ARG002
    ) -> dict[str, str]:
        """Say whether this user can take files out of a directory; this client shows no encryption
        zones."""
        return denied_removals(self.delete_file, directory)

    def _write(self, path: str, data: bytes) -> None:
        options = hdfs_native.WriteOptions(
            permission=self._file_mode, overwrite=True, create_parent=False
        )
        with self._client.create(path, options) as file:
            file.write(data)

    def _delete(self, path: str, *, recursive: bool) -> bool:
        was_there: bool = self._call(path, self._client.delete, path, recursive=recursive)
        return was_there

    def _call(self, path: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._threads.call(function, *args, **kwargs)
        except (OSError, RuntimeError) as e:
            raise _error(e, path) from e


def _open(spec: StoreSpec) -> hdfs_native.Client:
    """Open a client; an authority without a port is a configured name service, otherwise a host."""
    if not spec.authority:
        raise StoreRefusedError("hdfs: the URL names no NameNode", "write hdfs://host:port/path")
    given = {name: str(value) for name, value in spec.storage_options.items()}
    settings = {**_SETTINGS, **given}
    try:
        return hdfs_native.Client(f"hdfs://{spec.authority}", settings)
    except RuntimeError as e:
        # No name service of this name is configured, so the authority is a host: the default port is
        # missing.
        if "No NameNode hosts" not in str(e):
            raise StoreRefusedError(
                without_password(f"hdfs://{spec.authority}: cannot be opened: {e}"),
                "check the URL and Hadoop's settings",
            ) from None  # its text has the URL
    return hdfs_native.Client(f"hdfs://{spec.authority}:{DEFAULT_PORT}", settings)


def _error(error: OSError | RuntimeError, path: str) -> OSError:
    """Make the error for an exception of the client, which wraps the NameNode's own in several ways."""
    text = str(error).partition("\n")[0]
    if type(error) in _NAMED:
        return remote_error(_NAMED[type(error)], text, path)
    # The client shows the Java exception only in this text.
    if match := _RPC_ERROR.match(str(error)):
        exception, message = match.groups()
        return remote_error(exception, message.partition(r"\n")[0], path)
    if isinstance(error, NotImplementedError):
        return OSError(errno.ENOTSUP, f"hdfs-native does not support this: {text}", path)
    if text.startswith(_NO_ACCESS):
        return PermissionError(errno.EACCES, text, path)
    return StoreUnavailableError(path, text)


def _status(info: hdfs_native.FileStatus) -> FileStatus:
    return FileStatus(
        path=info.path,
        is_directory=info.isdir,
        size=info.length,
        modified_milliseconds=info.modification_time,
    )
