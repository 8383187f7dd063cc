"""HDFS over its own RPC, through hdfs-native: no Java, one connection to the NameNode for all threads.

The rename is Hadoop's ``rename2``. It is atomic, and never replaces, makes a parent, or moves into a
directory. It keeps the modification time, which proves after a lost answer that it took place.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import ParamSpec, TypeVar

import hdfs_native

from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import FileStatus, StoreSpec
from ray_committer.stores.deadline import DEADLINE_SECONDS, DeadlineThreads, first_deadline
from ray_committer.stores.hdfs.protocol import (
    LISTED_AT_ONCE,
    NameNodeStore,
    not_a_directory,
    remote_error,
)
from ray_committer.stores.owner import rights_of

DEFAULT_PORT = 8020

_SETTINGS = {
    # The client tries each NameNode once and reports the result: `GuardedStore` waits.
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "200",
}
_ACCESS_LIST = 1 << 12
_RPC_ERROR = re.compile(r'(?:Fatal)?RPCError\("([\w.$]*)", "(.*)"\)', re.DOTALL)
_NAMED: dict[type[Exception], str] = {
    FileNotFoundError: "FileNotFoundException",
    FileExistsError: "FileAlreadyExistsException",
}
_NO_ACCESS = ("SASLError", "GSSAPIError", "NoSASLMechanism")

P = ParamSpec("P")
T = TypeVar("T")


class HdfsStore(NameNodeStore):
    """`StoreOperations` on ``hdfs://``; 0.06 to 0.1 milliseconds of CPU per rename. `storage_options`
    are Hadoop's own settings; the files in ``HADOOP_CONF_DIR`` are also read."""

    def __init__(
        self,
        spec: StoreSpec,
        *,
        retry_seconds: float = RETRY_SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        super().__init__(spec)
        self._client = _open(spec)
        self._has_access_lists = True
        self._threads = DeadlineThreads(
            deadline_seconds, first_seconds=min(deadline_seconds, first_deadline(retry_seconds))
        )

    def get_status(self, path: str) -> FileStatus | None:
        try:
            return _status(self._call(path, self._client.get_file_info, path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list_status(self, path: str) -> list[FileStatus]:
        return [status for page in self._pages(path, LISTED_AT_ONCE) for status in page]

    def list_page(self, path: str) -> list[FileStatus] | None:
        # Not one name more, which the client would ask the NameNode for.
        page = next(self._pages(path, self.page_names), [])
        return page if len(page) < self.page_names else None

    def _pages(self, path: str, names: int) -> Iterator[list[FileStatus]]:
        statuses = self._client.list_status(path)
        # The client reads the listing page by page, so each page has a deadline of its own.
        while batch := self._call(path, lambda: list(islice(statuses, names))):
            if len(batch) == 1 and batch[0].path == path:
                raise not_a_directory(path)
            yield [*map(_status, batch)]

    def read(self, path: str) -> bytes:
        data: bytes = self._call(path, lambda: self._client.read(path).read())
        return data

    def write(self, path: str, data: bytes) -> None:
        self._call(path, self._write, path, data)
        self._owner.wrote(path)

    def _write(self, path: str, data: bytes) -> None:
        options = hdfs_native.WriteOptions(
            permission=self._file_mode, overwrite=True, create_parent=False
        )
        with self._client.create(path, options) as file:
            file.write(data)

    def _owners(self, path: str) -> tuple[str, str] | None:
        look = self._client.get_acl_status if self._has_access_lists else self._client.get_file_info
        try:
            status = self._call(path, look, path)
        except FileNotFoundError:
            return None
        except OSError as e:
            if "AclException" not in (e.strerror or ""):
                raise
            self._has_access_lists = False  # the NameNode is configured without
            return self._owners(path)
        return None if getattr(status, "entries", None) else (status.owner, status.group)

    def _make_directory(self, path: str) -> None:
        self._call(path, self._client.mkdirs, path, self._directory_mode, create_parent=True)

    def _rename(self, source: str, dest: str, *, overwrite: bool) -> None:
        self._call(source, self._client.rename, source, dest, overwrite=overwrite)

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
        # No name service of this name is configured: it is a host, without the default port.
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
        rights=_rights(info) if info.isdir else None,
    )


def _rights(info: hdfs_native.FileStatus) -> str | None:
    """Some NameNodes show by a bit of the mode that there is an access list; the others do not."""
    if info.permission & _ACCESS_LIST:
        return None
    return rights_of(info.owner, info.group, f"{info.permission & 0o1777:o}")
