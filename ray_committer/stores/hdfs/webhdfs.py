"""HDFS over HTTP (WebHDFS, HttpFS), if its RPC cannot be reached.

Renames are also Hadoop's ``rename2``. Without ``renameoptions``, as most clients ask, the old rename
answers false to every failure, and moves a file into a directory. The NameNode accepts any name, but
DataNodes of several versions decode a name twice and refuse a long one: they get the file's number.
"""

from __future__ import annotations

import errno
import getpass
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urljoin

import msgspec

from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.protocol.paths import parent
from ray_committer.protocol.prepared import prepare
from ray_committer.stores.addresses import server_address
from ray_committer.stores.answers import HttpAnswer, bad_field, decoded, foreign_answer, read_field
from ray_committer.stores.base import MOST_FILE_BYTES, FileStatus, StoreSpec, unsupported
from ray_committer.stores.deadline import first_deadline
from ray_committer.stores.hdfs.protocol import NameNodeStore, not_a_directory, remote_error
from ray_committer.stores.http import MOST_BYTES, HttpClient
from ray_committer.stores.owner import rights_of

_IN_URLS = "%!#$&'()*+,/:;=?@[]~"
_REDIRECTED = (301, 302, 307, 308)
_FSSPEC_NAMES = {"delegation": "token", "user.name": "user"}
_PLAIN = re.compile(r"[A-Za-z0-9_\-./=~,@]{1,2000}")

T = TypeVar("T")


class _Status(msgspec.Struct, rename="camel"):
    path_suffix: str
    type: str
    length: int
    modification_time: int
    owner: str = ""
    group: str = ""
    permission: str = ""
    file_id: int = 0
    acl_bit: bool = False
    enc_bit: bool = False


class _Statuses(msgspec.Struct, rename="pascal"):
    file_status: list[_Status]


class _File(msgspec.Struct, rename="pascal"):
    file_status: _Status


class _Listing(msgspec.Struct, rename="pascal"):
    file_statuses: _Statuses


class _Done(msgspec.Struct):
    boolean: bool


class _Exception(msgspec.Struct):
    exception: str
    message: str = ""


class _Failure(msgspec.Struct, rename="pascal"):
    remote_exception: _Exception


prepare(_File, _Listing, _Done, _Failure)


class WebHdfsStore(NameNodeStore):
    """`StoreOperations` on ``webhdfs://``, or on ``hdfs://`` with the option `webhdfs_url`. Other
    options: `user` (default: this process's user), or `delegation_token` instead."""

    def __init__(
        self, spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS, client: HttpClient | None = None
    ) -> None:
        super().__init__(spec)
        self._client = client or HttpClient(first_seconds=first_deadline(retry_seconds))
        options = spec.storage_options
        url = str(options.get("webhdfs_url") or f"http://{spec.authority}")
        named = "the storage option webhdfs_url" if options.get("webhdfs_url") else "its host"
        server_address(f"{spec.scheme}://...", named, url, path=True, user=True)
        self._root = f"{url.rstrip('/')}/webhdfs/v1"
        self._who = _who(options)
        self._is_namenode = False

    def get_status(self, path: str) -> FileStatus | None:
        try:
            file = self._ask(_File, "GET", "GETFILESTATUS", path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _status(path, file.file_status)

    def list_status(self, path: str) -> list[FileStatus]:
        listing = self._ask(_Listing, "GET", "LISTSTATUS", path)
        listed = listing.file_statuses.file_status
        # The listing of a file is the file itself, with an empty name.
        if any(not status.path_suffix for status in listed):
            raise not_a_directory(path)
        for status in listed:
            if "/" in status.path_suffix or status.path_suffix in (".", ".."):
                raise bad_field(path, "pathSuffix", status.path_suffix)
        above = path.rstrip("/")
        return [_status(f"{above}/{status.path_suffix}", status) for status in listed]

    def list_page(self, path: str) -> list[FileStatus] | None:
        listed = self.list_status(path)
        return listed if len(listed) < self.page_names else None

    def read(self, path: str) -> bytes:
        numbered = path if _PLAIN.fullmatch(path) else self._numbered(path)
        answer = self._send("GET", self._url("OPEN", numbered), path, most_bytes=MOST_FILE_BYTES)
        if answer.status in _REDIRECTED:
            url = self._elsewhere(answer, path)
            answer = self._send("GET", url, path, most_bytes=MOST_FILE_BYTES)
        return answer.body

    def write(self, path: str, data: bytes) -> None:
        self._write(path, data)
        self._owner.wrote(path)

    def _write(self, path: str, data: bytes) -> None:
        if _PLAIN.fullmatch(path):
            self._create(path, path, data)
            return
        above, _, name = path.rpartition("/")
        # The DataNode gets a plain name in the same directory, which the NameNode then renames.
        plain = name if _PLAIN.fullmatch(name) else uuid.uuid4().hex
        self._create(f"{self._numbered(above or '/')}/{plain}", path, data)
        if plain != name:
            self.replace(f"{above}/{plain}", path)

    def move_whole(self, source: str, dest: str) -> None:
        if not self._is_namenode:
            self._is_namenode = self._renames_as_asked(parent(source))
        if not self._is_namenode:
            raise unsupported("move_whole", source)
        super().move_whole(source, dest)

    def _renames_as_asked(self, directory: str) -> bool:
        """Return whether a NameNode answers. HttpFS ignores ``renameoptions``: it would move a directory
        into one that is there. Few of its versions number files, and to the rename of a missing name in
        a `directory`, which does nothing, it answers without an error."""
        if not self._ask(_File, "GET", "GETFILESTATUS", directory).file_status.file_id:
            return False
        missing = f"{directory}/.missing-{uuid.uuid4().hex}"
        try:
            self._call("PUT", "RENAME", missing, destination=f"{missing}-2", renameoptions="NONE")
        except FileNotFoundError:
            return True
        return False

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """Say also whether a directory is in another encryption zone than `home`."""
        try:
            zones = {self._is_encrypted(path) for path in (directory, home)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        if len(zones) > 1:
            return {directory: f"is in another encryption zone than {home}"}
        return super().what_stays(directory, files, home)

    def _is_encrypted(self, path: str) -> bool:
        """Return whether a directory is in an encryption zone; one zone is never below another."""
        return self._ask(_File, "GET", "GETFILESTATUS", path).file_status.enc_bit

    def _owners(self, path: str) -> tuple[str, str] | None:
        try:
            status = self._ask(_File, "GET", "GETFILESTATUS", path).file_status
        except FileNotFoundError:
            return None
        return None if status.acl_bit else (status.owner, status.group)

    def _make_directory(self, path: str) -> None:
        self._ask(_Done, "PUT", "MKDIRS", path, permission=f"{self._directory_mode:o}")

    def _rename(self, source: str, dest: str, *, overwrite: bool) -> None:
        how = "OVERWRITE" if overwrite else "NONE"
        answer = self._call("PUT", "RENAME", source, destination=dest, renameoptions=how)
        # HttpFS answers with a body, also to a rename that it did not make.
        if answer.body and not decoded(answer, _Done, source).boolean:  # the NameNode's body is empty
            if self.get_status(source) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source, None, dest)
            raise OSError(errno.EIO, "the server did not rename it", source, None, dest)

    def _delete(self, path: str, *, recursive: bool) -> bool:
        how = "true" if recursive else "false"
        return self._ask(_Done, "DELETE", "DELETE", path, recursive=how).boolean

    def _create(self, named: str, path: str, data: bytes) -> None:
        """Write a file at `path`, which the servers get under the name `named`."""
        options = {"overwrite": "true", "createparent": "false", "permission": f"{self._file_mode:o}"}
        answer = self._send("PUT", self._url("CREATE", named, **options), path)
        if answer.status not in _REDIRECTED:
            raise foreign_answer(answer, path)
        self._send("PUT", self._elsewhere(answer, path), path, data=data)

    def _elsewhere(self, answer: HttpAnswer, path: str) -> str:
        """Return the URL of a redirection; gateways can omit the host or the quoting."""
        # Headers are bytes: a gateway that quotes nothing sends the name in UTF-8.
        location = quote(answer.headers["location"].encode("latin-1"), safe=_IN_URLS)
        return read_field(partial(urljoin, self._root), location, "Location", path)

    def _numbered(self, path: str) -> str:
        """Return a path by number to what is at `path`; `path` itself if there are no numbers."""
        status = self._ask(_File, "GET", "GETFILESTATUS", path).file_status
        return f"/.reserved/.inodes/{status.file_id}" if status.file_id else path

    def _ask(self, kind: type[T], method: str, operation: str, path: str, **options: str) -> T:
        return decoded(self._call(method, operation, path, **options), kind, path)

    def _call(self, method: str, operation: str, path: str, **options: str) -> HttpAnswer:
        """Make a request that the NameNode answers itself; a listing has no pages."""
        url, dest = self._url(operation, path, **options), options.get("destination")
        most = MOST_FILE_BYTES if operation == "LISTSTATUS" else MOST_BYTES
        answer = self._send(method, url, path, dest=dest, most_bytes=most)
        if answer.status in _REDIRECTED:
            raise foreign_answer(answer, path)
        return answer

    def _url(self, operation: str, path: str, **options: str) -> str:
        query = urlencode({"op": operation, **self._who, **options}, quote_via=quote)
        return f"{self._root}{quote(path)}?{query}"

    def _send(
        self,
        method: str,
        url: str,
        path: str,
        *,
        dest: str | None = None,
        data: bytes | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Make one request; a redirection is an answer."""
        headers = {} if data is None else {"Content-Type": "application/octet-stream"}
        answer = self._client.request(
            method, url, path=path, headers=headers, data=data, most_bytes=most_bytes
        )
        if 200 <= answer.status < 300 or (answer.status in _REDIRECTED and "location" in answer.headers):
            return answer
        raise _error(answer, path, dest)


def fsspec_options(spec: StoreSpec) -> dict[str, Any]:
    """Return the options with which fsspec's own client is the same user as this store."""
    options, who = spec.storage_options, _who(spec.storage_options)
    identity = {_FSSPEC_NAMES[name]: value for name, value in who.items()}
    return identity | {name: options[name] for name in ("data_proxy",) if name in options}


def _who(options: Mapping[str, Any]) -> dict[str, str]:
    if token := options.get("delegation_token"):
        return {"delegation": token}
    user = options.get("user") or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return {"user.name": user}


def _error(answer: HttpAnswer, path: str, dest: str | None) -> OSError:
    """Make the error for a refused request; only the NameNode's own exception counts."""
    try:
        failure = msgspec.json.decode(answer.body, type=_Failure).remote_exception
    except (msgspec.MsgspecError, UnicodeDecodeError):
        if answer.status == 401:
            return PermissionError(errno.EACCES, "WebHDFS requires other credentials", path)
        text = f"the server that answered {answer.status} is not WebHDFS; check its address"
        return OSError(errno.EIO, text, path)
    return remote_error(failure.exception, failure.message, path, dest)


def _status(path: str, status: _Status) -> FileStatus:
    if status.length < 0:
        raise bad_field(path, "length", str(status.length))
    return FileStatus(
        path=path,
        is_directory=status.type == "DIRECTORY",
        is_link=status.type == "SYMLINK",
        size=status.length,
        modified_milliseconds=status.modification_time,
        file_id=str(status.file_id) if status.file_id else None,
        rights=rights_of(status.owner, status.group, None if status.acl_bit else status.permission)
        if status.type == "DIRECTORY"
        else None,
    )
