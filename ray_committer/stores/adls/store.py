"""Azure Data Lake Storage Gen2: accounts with a hierarchical namespace, through the DFS API.

A rename is one atomic request. It is bound to the source's etag and keeps it, so the etag in a manifest
is both the condition of the rename and its proof. Source: Hadoop's ABFS, which recovers alike.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from functools import lru_cache
from stat import filemode

import msgspec

from ray_committer.protocol.prepared import prepare
from ray_committer.stores.adls.http import (
    APPEND_BYTES,
    PAGE_PATHS,
    AdlsHttp,
    bare_etag,
    error_code,
    error_of,
    quoted_etag,
)
from ray_committer.stores.answers import (
    HttpAnswer,
    PageTokens,
    bad_field,
    decoded,
    read_field,
    require_inside,
    whole_number,
)
from ray_committer.stores.base import (
    MOST_FILE_BYTES,
    FilePage,
    FileStatus,
    StoreCapabilities,
    StoreSpec,
    Versions,
)
from ray_committer.stores.hdfs.protocol import permissions
from ray_committer.stores.owner import Owner, rights_of
from ray_committer.stores.state_names import NamedStates

PATH_BYTES = 1024
"""The documented limit, in characters; no other limit is documented for one element of a path."""

_POLICY = re.compile(rb"<DeleteRetentionPolicy>(.*?)</DeleteRetentionPolicy>", re.DOTALL)
_DAYS = re.compile(rb"<Days>(\d+)</Days>")


class AdlsStore(NamedStates):
    """`StoreOperations` on ``abfs://``; each makes single requests and repeats none of them."""

    capabilities = StoreCapabilities(
        listing_is_cheap=False,
        max_path_length=PATH_BYTES,
        max_name_length=PATH_BYTES,
        deletes_trees=True,
        versions=Versions.ETAG,
    )

    def __init__(self, spec: StoreSpec, http: AdlsHttp) -> None:
        self.spec = spec
        self._http = http
        self._owner = Owner(self._owners)
        self._mode = permissions(spec.storage_options)[1]

    def get_status(self, path: str) -> FileStatus | None:
        if path == "/":
            return FileStatus("/", is_directory=True)
        answer = self._http.path("HEAD", path)
        if _is_nothing(answer):
            return None
        headers = _checked(answer, path).headers
        return file_status(
            path,
            is_directory=headers.get("x-ms-resource-type") == "directory",
            size=read_field(whole_number, headers.get("content-length", "0"), "Content-Length", path),
            modified_milliseconds=_milliseconds(headers.get("last-modified"), path),
            etag=bare_etag(headers.get("etag")),
        )

    def list_status(self, path: str) -> list[FileStatus]:
        return [status for page, _ in self._pages(path, recursive=False) for status in page]

    def list_page(self, path: str) -> list[FileStatus] | None:
        page, token = next(self._pages(path, recursive=False))
        return None if token else page

    def list_files(self, path: str) -> list[FileStatus]:
        try:
            pages = self._pages(path, recursive=True)
            return [status for page, _ in pages for status in page if not status.is_directory]
        except FileNotFoundError:
            return []

    def list_files_page(self, path: str, after: str | None = None) -> FilePage:
        try:
            page, token = next(self._pages(path, recursive=True, after=after))
        except FileNotFoundError:
            return FilePage([])
        return FilePage([status for status in page if not status.is_directory], token)

    def read(self, path: str) -> bytes:
        return _checked(self._http.path("GET", path, most_bytes=MOST_FILE_BYTES), path).body

    def write(self, path: str, data: bytes) -> None:
        _checked(self._http.path("PUT", path, {"resource": "file"}), path)
        for start in range(0, len(data), APPEND_BYTES):
            part = data[start : start + APPEND_BYTES]
            # The flush goes with the last part: readers see an empty file before it, all of it after.
            is_last = start + len(part) == len(data)
            query = {"action": "append", "position": str(start), "flush": "true" if is_last else "false"}
            _checked(self._http.path("PATCH", path, query, data=part), path)
        self._owner.wrote(path)

    def begin_file(self, path: str) -> str:
        _checked(self._http.path("PUT", path, {"resource": "file"}), path)
        return ""

    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Append, then flush; a server that refuses to append twice has the bytes, which the flush, by
        its position, proves."""
        query = {"action": "append", "position": str(start)}
        answer = self._http.path("PATCH", path, query, data=data)
        if error_code(answer) != "InvalidAppendPosition":
            _checked(answer, path)
        if is_last:
            query = {"action": "flush", "position": str(start + len(data)), "close": "true"}
            _checked(self._http.path("PATCH", path, query, data=b""), path)

    def mkdirs(self, path: str) -> None:
        if path == "/":
            return
        # Without the condition the service would replace a file that is there by a directory; its own
        # umask is not that of Hadoop, whose tasks make directories, too.
        mode = {"x-ms-permissions": "0777", "x-ms-umask": f"{0o777 ^ self._mode:04o}"}
        headers = {"If-None-Match": "*", **mode}
        answer = self._http.path("PUT", path, {"resource": "directory"}, headers)
        if error_code(answer) != "PathAlreadyExists":
            _checked(answer, path)
            return
        kind = answer.headers.get("x-ms-existing-resource-type")
        status = None if kind else self.get_status(path)
        if kind != "directory" and not (status and status.is_directory):
            raise FileExistsError(errno.EEXIST, "a file is in the way", path)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._rename(source, dest, version, {"If-None-Match": "*"})

    def move_whole(self, source: str, dest: str) -> None:
        # Without a mode, as Hadoop's ABFS: what "legacy" does at a directory is not documented.
        self._rename(source, dest, None, {"If-None-Match": "*"}, mode="")

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        condition = {} if old is None else {"If-Match": quoted_etag(old)}
        self._rename(source, dest, version, condition)

    def rights_below(self, path: str) -> str | None:
        return self._owner.rights_below(path, filemode(self._mode)[1:])

    def _owners(self, path: str) -> tuple[str, str] | None:
        answer = self._http.path("HEAD", path, {"action": "getAccessControl"})
        if _is_nothing(answer):
            return None
        headers = _checked(answer, path).headers
        # Only a list for what is made in the directory decides anything there.
        if "default:" in headers.get("x-ms-acl", "default:"):
            return None
        return headers.get("x-ms-owner", ""), headers.get("x-ms-group", "")

    def delete_file(self, path: str) -> bool:
        answer = self._http.path("DELETE", path)
        return not _is_nothing(answer) and bool(_checked(answer, path))

    def delete_version(self, path: str, version: str | None) -> bool:
        answer = self._http.path("DELETE", path, headers={"If-Match": quoted_etag(version or "")})
        return not _is_nothing(answer) and bool(_checked(answer, path))

    def delete_directory(self, path: str) -> bool:
        query, tokens = {"recursive": "true", "paginated": "true"}, PageTokens(path)
        while True:
            answer = self._http.path("DELETE", path, query)
            if _is_nothing(answer):
                # Gone between two pages: this call, or another process, has deleted the rest.
                return "continuation" in query
            token = _checked(answer, path).headers.get("x-ms-continuation")
            if not token:
                return True
            query["continuation"] = tokens.follow(token)

    def remove_empty_directory(self, path: str) -> bool:
        answer = self._http.path("DELETE", path, {"recursive": "false"})
        if _is_nothing(answer) or error_code(answer) == "DirectoryNotEmpty":
            return False
        return bool(_checked(answer, path))

    def cost_warnings(self) -> list[str]:
        # An account with a hierarchical namespace has no versioning.
        query = {"restype": "service", "comp": "properties"}
        answer = self._http.path("GET", "/", query, of_account=True)
        if answer.status != 200:
            raise error_of(answer.status, error_code(answer), "/")
        policy = _POLICY.search(answer.body)
        if policy is None or b"<Enabled>true</Enabled>" not in policy[1]:
            return []
        days = _DAYS.search(policy[1])
        kept = f"for {int(days[1])} days" if days else "for a time"
        return [
            f"soft delete keeps and bills {kept} what a commit deletes (manifests and replaced data, "
            f"not renamed files): switch it off if that is much data"
        ]

    def _rename(
        self, source: str, dest: str, version: str | None, headers: dict[str, str], mode: str = "legacy"
    ) -> None:
        headers["x-ms-rename-source"] = self._http.source(source)
        if version is not None:
            headers["x-ms-source-if-match"] = quoted_etag(version)
        answer = self._http.path("PUT", dest, {"mode": mode} if mode else None, headers)
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, error_code(answer), source, dest)
        if answer.headers.get("x-ms-continuation"):  # only in flat accounts, as far as is documented
            raise OSError(errno.EIO, "the store moves a directory in several steps", source, None, dest)

    def _pages(
        self, path: str, *, recursive: bool, after: str | None = None
    ) -> Iterator[tuple[list[FileStatus], str | None]]:
        """List a directory: at least one page, each with the token of the next one."""
        query = {
            "resource": "filesystem",
            "recursive": "true" if recursive else "false",
            "maxResults": str(PAGE_PATHS),
        }
        if path != "/":
            query["directory"] = path[1:]
        if after is not None:
            query["continuation"] = after
        tokens, below = PageTokens(path), path[1:] and f"{path[1:]}/"
        while True:
            answer = self._http.path("GET", "", query, shown=path)
            if error_code(answer) == "PathConflict":
                raise NotADirectoryError(errno.ENOTDIR, "is a file", path)
            page = decoded(_checked(answer, path), _Page, path, strict=False)
            require_inside((listed_path.name for listed_path in page.paths), below, "name")
            token = answer.headers.get("x-ms-continuation") or None
            yield [*map(_listed, page.paths)], token
            if not token:
                return
            query["continuation"] = tokens.follow(token)


class _Path(msgspec.Struct, gc=False, rename="camel"):
    """One path of a listing; numbers and flags are text."""

    name: str
    etag: str | None = None
    last_modified: str | None = None
    content_length: int = 0
    is_directory: bool = False
    owner: str | None = None
    group: str | None = None
    permissions: str | None = None


class _Page(msgspec.Struct):
    paths: list[_Path]


prepare(_Page)


def _listed(entry: _Path) -> FileStatus:
    if entry.content_length < 0:
        raise bad_field(f"/{entry.name}", "contentLength", str(entry.content_length))
    return file_status(
        f"/{entry.name}",
        is_directory=entry.is_directory,
        size=entry.content_length,
        modified_milliseconds=_milliseconds(entry.last_modified, f"/{entry.name}"),
        etag=bare_etag(entry.etag),
        rights=rights_of(entry.owner, entry.group, entry.permissions)
        if entry.is_directory and not (entry.permissions or "").endswith("+")
        else None,
    )


def file_status(
    path: str,
    *,
    is_directory: bool,
    size: int,
    modified_milliseconds: int | None,
    etag: str | None,
    rights: str | None = None,
) -> FileStatus:
    """Make a status whose etag is also its version."""
    return FileStatus(
        path=path,
        is_directory=is_directory,
        size=0 if is_directory else size,
        modified_milliseconds=modified_milliseconds,
        etag=etag,
        version=etag,
        rights=rights,
    )


def _milliseconds(date: str | None, path: str) -> int | None:
    return read_field(_of_date, date, "Last-Modified", path) if date else None


@lru_cache(maxsize=1024)
def _of_date(date: str) -> int:
    # Whole seconds: the header has no more, and a listing must show the same time.
    return int(parsedate_to_datetime(date).timestamp()) * 1000


def _is_nothing(answer: HttpAnswer) -> bool:
    """Return whether nothing is at a path, or nothing can be because a file is above it."""
    if answer.status == 404:
        return error_code(answer) != "FilesystemNotFound"
    return error_code(answer) == "PathConflict"


def _checked(answer: HttpAnswer, path: str) -> HttpAnswer:
    if answer.status >= 300:
        raise error_of(answer.status, error_code(answer), path)
    return answer
