"""Amazon S3: a file is an upload that is completed in one atomic request, and nothing is renamed.

A directory exists while an object is below it, or while its mark exists, an empty object ``dir/``; some
servers list it longer. The version of an object is its etag. A change of a state, and every write that
must not replace, has a condition; a server that ignores these is refused when a job is set up.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime

from ray_committer.errors import StoreRefusedError
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.paths import parent
from ray_committer.stores.answers import read_field, whole_number
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import (
    FileStatus,
    StoreCapabilities,
    StoredState,
    StoreOperations,
    StoreSpec,
    Versions,
)
from ray_committer.stores.deadline import first_deadline
from ray_committer.stores.http import HttpClient
from ray_committer.stores.options import is_true
from ray_committer.stores.s3 import xml
from ray_committer.stores.s3.bucket import PAGE_ITEMS, STAMP_HEADER, S3Bucket
from ray_committer.stores.s3.conditions import check_conditions
from ray_committer.stores.s3.connect import Credentials, find_place, trusted_certificates
from ray_committer.stores.uploads import UploadedParts, UploadPage

DELETES_AT_ONCE = 4

UPLOADS = StoreCapabilities(
    listing_is_cheap=False,
    max_path_length=1 + 1024,  # the object's name, and the slash before it
    max_name_length=1024,
    has_directories=False,
    versions=Versions.ETAG,
)


class S3Store(StoreOperations):
    """`StoreOperations` on ``s3://`` whose files are uploads. Opening it makes no request: a bucket that
    is missing, or in another region, is refused by the first."""

    capabilities = UPLOADS

    def __init__(
        self, spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS, client: HttpClient | None = None
    ) -> None:
        if not spec.authority:
            raise StoreRefusedError("s3://: the URL names no bucket", "write s3://bucket/path")
        self.spec = spec
        options = spec.storage_options
        credentials = Credentials(spec.authority, options)
        place = find_place(spec.authority, options, credentials)
        used = client or HttpClient(
            first_seconds=first_deadline(retry_seconds), trusted=trusted_certificates(credentials)
        )
        pays = is_true("requester_pays", options.get("requester_pays", False))
        self._bucket = S3Bucket(spec.authority, place, credentials, used, pays=pays)
        self._binds_deletes = is_true("conditional_deletes", options.get("conditional_deletes", True))
        self._is_checked = False

    def get_status(self, path: str) -> FileStatus | None:
        headers = self._bucket.head(path[1:]) if path != "/" else None
        if headers is not None:
            return _status_of_head(path, headers)
        return FileStatus(path, is_directory=True) if self._is_directory(path) else None

    def list_status(self, path: str) -> list[FileStatus]:
        prefix = _prefix(path)
        statuses: list[FileStatus] = []
        # S3 has no directories: one without an object, or a mark, is not there.
        is_there = path == "/"
        for page in self._bucket.pages(prefix, delimiter="/"):
            is_there = is_there or bool(page.objects or page.prefixes)
            statuses += xml.listed(page)
        if not is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return statuses

    def list_page(self, path: str) -> list[FileStatus] | None:
        page = next(self._bucket.pages(_prefix(path), delimiter="/"))
        if not (page.token or page.objects or page.prefixes or path == "/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return None if page.token else xml.listed(page)

    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        page = next(self._bucket.pages(_prefix(path), delimiter="/"))
        return None if page.token else [each for each in xml.listed(page) if each.name in names]

    def list_exact(self, path: str) -> list[FileStatus]:
        """`list_status` by the names of the first objects; only if there are more objects, directories
        are listed as the server shows them, and those that no object has proved are looked into."""
        prefix = _prefix(path)
        # Some servers show a directory after its last object is gone; objects are shown right.
        first = next(self._bucket.pages(prefix))
        there = xml.children(prefix, first.objects)
        if first.token:
            shown = self.list_status(path)
            return [status for status in shown if status.path in there or self._holds(status)]
        if not first.objects and path != "/":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return list(there.values())

    def list_files(self, path: str) -> list[FileStatus]:
        return [xml.status_of(item) for item in self._objects(path) if not item.name.endswith("/")]

    def read(self, path: str) -> bytes:
        content, _ = self._bucket.get(path[1:])
        return content

    def write(self, path: str, data: bytes) -> None:
        self._bucket.put(path[1:], data)

    def mkdirs(self, path: str) -> None:
        if path != "/":
            self._bucket.put(_prefix(path), b"")

    def read_state(self, path: str) -> StoredState | None:
        try:
            text, etag = self._bucket.get(path[1:])
        except FileNotFoundError:
            return None
        return StoredState(text.decode(errors="surrogateescape"), etag)  # perhaps of another program

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        if old is not None:
            return StoredState(text, self._bucket.put(path[1:], text.encode(), old=old.version))
        return StoredState(text, self._bucket.put(path[1:], text.encode(), new=True))

    def delete_file(self, path: str) -> bool:
        if self._bucket.head(path[1:]) is None:
            return False
        self._bucket.delete(path[1:])
        return True

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete an object if it has this etag; where deletes have no conditions, look at it first."""
        if version is None:
            return self.delete_file(path)
        if not self._binds_deletes:
            headers = self._bucket.head(path[1:])
            if headers is None:
                return False
            if headers.get("etag", "").strip('"') != version:
                raise FileExistsError(errno.EEXIST, "has changed", path)
        try:
            self._bucket.delete(path[1:], version if self._binds_deletes else None)
        except FileNotFoundError:
            return False
        return True

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """Delete exactly the objects that were listed before `holds` was called, if they are the same in
        another listing: servers that delete many objects at once may ignore their etags."""
        listed = self._objects_in(directories)
        # After the listing and before the deletion: what is written since is in no listing, so it stays.
        if not holds():
            return False
        if listed:
            listed_again = self._objects_in(directories)
            bound = self._binds_deletes
            self._delete([(item.name, item.etag if bound else None) for item in listed & listed_again])
        return True

    def list_objects(self, path: str) -> list[FileStatus]:
        return [xml.status_of(item) for item in self._objects(path)]

    def delete_objects(self, listed: Sequence[FileStatus]) -> None:
        bound = self._binds_deletes
        self._delete([(status.path[1:], status.version if bound else None) for status in listed])

    def delete_directory(self, path: str) -> bool:
        items = [(item.name, None) for item in self._objects(path)]
        self._delete(items)
        return bool(items)

    def remove_empty_directory(self, path: str) -> bool:
        prefix = _prefix(path)
        # Two are enough: besides the mark of the directory itself, one object shows that it is in use.
        pages = self._bucket.pages(prefix, limit=2)
        items = list(itertools.islice((item for page in pages for item in page.objects), 2))
        if not items or any(item.name != prefix for item in items):
            return False
        with suppress(FileExistsError, FileNotFoundError):
            self._bucket.delete(prefix)
        return True

    def check_conditions(self, path: str) -> None:
        if not self._is_checked:
            check_conditions(self._bucket, path[1:], binds_deletes=self._binds_deletes)
            self._is_checked = True

    def create(self, path: str, data: bytes) -> None:
        self._bucket.put(path[1:], data, new=True)

    def begin_upload(self, path: str, stamp: str | None) -> str:
        return self._bucket.begin(path[1:], stamp)

    def put_part(self, path: str, upload: str, number: int, data: bytes) -> str:
        return self._bucket.put_part(path[1:], upload, number, data)

    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        return self._bucket.complete(action, old)

    def is_pending(self, path: str, upload: str) -> bool:
        return self._bucket.has_upload(path[1:], upload)

    def abort_upload(self, path: str, upload: str) -> None:
        self._bucket.abort(path[1:], upload)

    def list_uploads(self, path: str, after: tuple[str, str] | None = None) -> UploadPage:
        return self._bucket.upload_page(_prefix(path), after)

    def uploaded_parts(self, path: str, upload: str) -> UploadedParts | None:
        try:
            parts = [part for page in self._bucket.part_pages(path[1:], upload) for part in page.parts]
        except FileNotFoundError:
            return None
        moments = [moment for _, moment in parts if moment is not None]
        return UploadedParts(sum(size for size, _ in parts), max(moments, default=None))

    def abort_days(self, path: str) -> int | None:
        prefix, lifecycle = _prefix(path), self._bucket.setting("lifecycle")
        rules = [] if lifecycle is None else xml.abort_rules_of(lifecycle)
        met = (
            rule for rule in rules if prefix.startswith(rule.prefix) or rule.prefix.startswith(prefix)
        )
        return min((rule.days for rule in met), default=None)

    def settings(self) -> S3Settings:
        return S3Settings(self._bucket)

    def list_prefix(self, path: str) -> list[FileStatus]:
        pages = self._bucket.pages(path[1:], delimiter="/")
        return [status for page in pages for status in xml.listed(page) if self._holds(status)]

    def _objects(self, path: str) -> Iterator[xml.Listed]:
        return (item for page in self._bucket.pages(_prefix(path)) for item in page.objects)

    def _objects_in(self, directories: Sequence[str]) -> set[xml.Listed]:
        """The objects below some directories; one listing, if they have one parent."""
        # One listing of the parent costs less than one of each child, as long as it holds little else.
        above = {parent(path) for path in directories}
        listed = above if len(above) == 1 and above != {"/"} else directories
        wanted = tuple(map(_prefix, directories))
        return {item for path in listed for item in self._objects(path) if item.name.startswith(wanted)}

    def _delete(self, named: Sequence[tuple[str, str | None]]) -> None:
        """Delete objects, 1,000 in one request, several requests at once."""
        groups = [named[low : low + PAGE_ITEMS] for low in range(0, len(named), PAGE_ITEMS)]
        at_once(self, self._bucket.delete_all, groups, threads=DELETES_AT_ONCE)

    def _holds(self, status: FileStatus) -> bool:
        """Whether it is a file, or a directory with an object: some servers show others, too."""
        return not status.is_directory or self._is_directory(status.path)

    def _is_directory(self, path: str) -> bool:
        if path == "/":
            return True
        return any(page.objects for page in self._bucket.pages(_prefix(path), limit=1))


def _prefix(path: str) -> str:
    """Return the prefix of the names of all objects below a directory."""
    return "" if path == "/" else f"{path[1:]}/"


def _status_of_head(path: str, headers: Mapping[str, str]) -> FileStatus:
    """The status of the object at `path`, from the headers that describe it."""
    etag, modified = headers.get("etag", "").strip('"'), headers.get("last-modified")
    return FileStatus(
        path=path,
        is_directory=False,
        size=read_field(whole_number, headers.get("content-length", "0"), "Content-Length", path),
        modified_milliseconds=(
            read_field(_of_date, modified, "Last-Modified", path) if modified else None
        ),
        etag=etag,
        version=etag,
        stamp=headers.get(STAMP_HEADER),
    )


def _of_date(text: str) -> int:
    return int(parsedate_to_datetime(text).timestamp() * 1000)


class S3Settings:
    """`BucketSettings` of a bucket of S3's API; what a server does not know is not set there."""

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket

    def encryption(self) -> str | None:
        return self._text("encryption", ".//SSEAlgorithm")

    def versioning(self) -> str | None:
        return self._text("versioning", "Status")

    def locks_objects(self) -> bool:
        return self._text("object-lock", "ObjectLockEnabled") == "Enabled"

    def place(self) -> str:
        return f"{self._bucket.place.region}, {self._bucket.place.base}"

    def clock_seconds(self) -> float | None:
        before = time.time()
        date = self._bucket.look().headers.get("date")
        middle = (before + time.time()) / 2
        if not date:
            return None
        return read_field(parsedate_to_datetime, date, "Date", "/").timestamp() - middle

    def _text(self, setting: str, element: str) -> str | None:
        root = self._bucket.setting(setting)
        return None if root is None else root.findtext(element) or None
