"""Google Cloud Storage: one atomic request moves an object and is bound to the object's generation.

``moveTo`` gives the object at its new place a new generation and the same content, so size and CRC32C
prove a move. They are listed and saved before the first move. Most buckets are flat: a directory exists
while an object is below it, or while its mark exists, an empty object ``dir/`` as Hadoop's connector
leaves it. In a bucket with a hierarchical namespace, directories are folders.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from ray_committer.errors import (
    RayCommitterError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.answers import (
    CredentialsRefusedError,
    StoreUnusableError,
    read_field,
    whole_number,
)
from ray_committer.stores.at_once import THREADS, at_once
from ray_committer.stores.base import (
    FilePage,
    FileStatus,
    StoreCapabilities,
    StoredState,
    StoreOperations,
    StoreSpec,
    Versions,
)
from ray_committer.stores.deadline import first_deadline
from ray_committer.stores.gcs.api import GcsBucket, GcsObject, GcsPage
from ray_committer.stores.gcs.batch import MOST_CALLS
from ray_committer.stores.guarded import until_answered
from ray_committer.stores.http import HttpClient

_log = logging.getLogger(__name__)

DELETES_AT_ONCE = THREADS
BATCHES_AT_ONCE = 4
"""Each call of a batch counts as a request, and a bucket accepts 1,000 per second at first."""

FLAT = StoreCapabilities(
    listing_is_cheap=False,
    max_path_length=1 + 1024,  # the object's name, and the slash before it
    max_name_length=1024,
    refused_characters="\r\n",
    has_directories=False,
    versions=Versions.LISTED,
)
HIERARCHICAL = replace(FLAT, max_name_length=512, has_directories=True, rename_makes_parents=True)


class GcsStore(StoreOperations):
    """`StoreOperations` on ``gs://``; the storage options have gcsfs's names. Opening it asks whether
    the bucket has folders. If that is denied, it counts as flat: a write creates the folders above."""

    def __init__(self, spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS) -> None:
        if not spec.authority:
            raise StoreRefusedError("gs://: the URL names no bucket", "write gs://bucket/path")
        self.spec = spec
        client = HttpClient(first_seconds=first_deadline(retry_seconds))
        self._bucket, self._has_folders = until_answered(lambda: _open(spec, client), retry_seconds)
        self.capabilities = HIERARCHICAL if self._has_folders else FLAT

    def get_status(self, path: str) -> FileStatus | None:
        item = self._bucket.get(path[1:]) if path != "/" else None
        if item is not None:
            return _status(item)
        return FileStatus(path, is_directory=True) if self._is_directory(path) else None

    def list_status(self, path: str) -> list[FileStatus]:
        return self._statuses(path, self._pages(path))

    def list_page(self, path: str) -> list[FileStatus] | None:
        page = next(self._pages(path))
        return None if page.next_page_token else self._statuses(path, [page])

    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        page = next(self._pages(path))
        if page.next_page_token:
            return None
        wanted = {f"{_prefix(path)}{name}" for name in names}
        return [status for name, status in _by_name([page]).items() if name.rstrip("/") in wanted]

    def list_files(self, path: str) -> list[FileStatus]:
        pages = self._bucket.pages(_prefix(path))
        return [_status(item) for page in pages for item in page.items if not item.name.endswith("/")]

    def list_files_page(self, path: str, after: str | None = None) -> FilePage:
        page = next(self._bucket.pages(_prefix(path), after=after))
        files = [_status(item) for item in page.items if not item.name.endswith("/")]
        return FilePage(files, page.next_page_token or None)

    def read(self, path: str) -> bytes:
        content, _ = self._bucket.download(path[1:])
        return content

    def write(self, path: str, data: bytes) -> None:
        self._bucket.upload(path[1:], data)

    def begin_file(self, path: str) -> str:
        return self._bucket.begin_upload(path[1:])

    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        self._bucket.put_part(path[1:], file, start, data, is_last=is_last)

    def mkdirs(self, path: str) -> None:
        if path == "/":
            return
        with suppress(FileExistsError):  # only a mark or folder: a file's name has no slash at the end
            if self._has_folders:
                self._bucket.create_folder(_prefix(path))
            else:
                self._bucket.upload(_prefix(path), b"", generation="0")

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._bucket.move(source[1:], dest[1:], version, old="0")

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self._bucket.move(source[1:], dest[1:], version, old=old)

    def read_state(self, path: str) -> StoredState | None:
        try:
            text, generation = self._bucket.download(path[1:])
        except FileNotFoundError:
            return None
        return StoredState(text.decode(), generation)

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        """Upload on a condition; Google accepts one upload per second and object, and throttles more."""
        generation = (old.version if old else None) or "0"
        return StoredState(text, self._bucket.upload(path[1:], text.encode(), generation=generation))

    def delete_file(self, path: str) -> bool:
        return self._bucket.delete(path[1:])

    def delete_version(self, path: str, version: str | None) -> bool:
        return self._bucket.delete(path[1:], version)

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        pages = (page for path in directories for page in self._bucket.pages(_prefix(path)))
        listed = {item.name: item.generation for page in pages for item in page.items}
        folders = [folder for path in directories for folder in self._folders(path)]
        # Asked between the listing and the deletion, which is bound to the generations that were listed.
        if not holds():
            return False
        self._delete_objects(listed)
        self._delete_folders(self._bucket.delete_empty_folder, folders)
        return True

    def delete_directory(self, path: str) -> bool:
        was_there = False
        for page in self._bucket.pages(_prefix(path)):
            was_there = self._delete_objects({item.name: None for item in page.items}) or was_there
        return self._delete_folders(self._bucket.delete_folder, self._folders(path)) or was_there

    def remove_empty_directory(self, path: str) -> bool:
        prefix = _prefix(path)
        pages = self._bucket.pages(prefix, limit=2)
        items = list(itertools.islice((item for page in pages for item in page.items), 2))
        if any(item.name != prefix for item in items):
            return False
        try:
            removed = any(self._bucket.delete(mark.name, mark.generation) for mark in items)
            return (self._has_folders and self._bucket.delete_folder(prefix)) or removed
        except FileExistsError:
            return False

    def cost_warnings(self) -> list[str]:
        settings = self._bucket.settings()
        kept = str(settings.soft_delete_policy.retention_duration_seconds)
        seconds = read_field(whole_number, kept, "softDeletePolicy.retentionDurationSeconds", "/")
        warnings = []
        if seconds:
            warnings.append(
                f"soft delete keeps for {seconds / 86_400:g} days, and bills, what a commit deletes "
                f"(manifests, replaced data; not what it renames): switch it off if that is much"
            )
        if settings.versioning.enabled:
            warnings.append(
                "versioning keeps, and bills, a version of each file that is deleted or replaced: give "
                "the bucket a lifecycle rule for those"
            )
        return warnings

    def _delete_objects(self, generations: Mapping[str, str | None]) -> bool:
        """Delete objects, but no other generation than the given one; return whether any was there."""
        named = list(generations.items())
        if len(named) <= DELETES_AT_ONCE or not self._bucket.has_batches:
            return any(at_once(self, lambda pair: self._bucket.delete_unless_new(*pair), named))
        size = min(MOST_CALLS, -(-len(named) // BATCHES_AT_ONCE))
        batches = [dict(named[low : low + size]) for low in range(0, len(named), size)]

        def delete(batch: dict[str, str | None]) -> int | OSError | RayCommitterError:
            try:
                return self._bucket.delete_all(batch)
            except (ThrottledError, StoreUnavailableError):
                raise
            except (OSError, RayCommitterError) as e:
                return e  # the others are deleted even if there is no permission to delete one

        deleted = at_once(self, delete, batches, threads=BATCHES_AT_ONCE)
        for result in deleted:
            if isinstance(result, Exception):
                raise result
        return any(deleted)

    def _folders(self, path: str) -> list[str]:
        return list(self._bucket.list_folders(_prefix(path))) if self._has_folders else []

    def _delete_folders(self, delete: Callable[[str], bool], folders: list[str]) -> bool:
        was_there = False
        # The deepest first, since only an empty folder can be deleted.
        for _, level in itertools.groupby(sorted(folders, key=_depth, reverse=True), _depth):
            was_there = any(at_once(self, delete, list(level))) or was_there
        return was_there

    def _pages(self, path: str) -> Iterator[GcsPage]:
        return self._bucket.pages(_prefix(path), delimiter="/", folders=self._has_folders)

    def _statuses(self, path: str, pages: Iterable[GcsPage]) -> list[FileStatus]:
        """Describe what is in a directory; ``FileNotFoundError`` if it is not there."""
        prefix, statuses = _prefix(path), _by_name(pages)
        is_there = bool(statuses) or path == "/"
        if not is_there and not (self._has_folders and self._bucket.has_folder(prefix)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        statuses.pop(prefix, None)
        return list(statuses.values())

    def _is_directory(self, path: str) -> bool:
        if path == "/":
            return True
        if self._has_folders:
            return self._bucket.has_folder(_prefix(path))
        return any(page.items for page in self._bucket.pages(_prefix(path), limit=1))


def _open(spec: StoreSpec, client: HttpClient) -> tuple[GcsBucket, bool]:
    """Return a bucket, and whether it has folders."""
    bucket = GcsBucket(spec.authority, spec.storage_options, client=client)
    return bucket, _has_folders(bucket, spec.authority)


def _has_folders(bucket: GcsBucket, name: str) -> bool:
    try:
        return bucket.is_hierarchical()
    except (ThrottledError, StoreUnavailableError, StoreUnusableError, CredentialsRefusedError):
        raise
    except OSError as e:
        _warn_flat(name, str(e.strerror))
        return False


@lru_cache
def _warn_flat(name: str, why: str) -> None:
    """Warn once per process, although a bucket is opened every minute."""
    _log.warning("gs://%s: is used as a flat bucket: its layout is not readable (%s)", name, why)


def _by_name(pages: Iterable[GcsPage]) -> dict[str, FileStatus]:
    """Describe what pages of a listing of a directory show, with its own mark if it has one."""
    statuses: dict[str, FileStatus] = {}
    for page in pages:
        for name in page.prefixes:
            statuses[name] = FileStatus(f"/{name[:-1]}", is_directory=True)
        for item in page.items:
            statuses[item.name] = _status(item)
    return statuses


def _status(item: GcsObject) -> FileStatus:
    path = f"/{item.name}"
    read_field(whole_number, item.generation, "generation", path)
    return FileStatus(
        path=path,
        is_directory=False,
        size=read_field(whole_number, item.size, "size", path),
        modified_milliseconds=(
            read_field(_milliseconds, item.updated, "updated", path) if item.updated else None
        ),
        etag=f"crc32c={item.crc32c}" if item.crc32c else None,
        version=item.generation,
    )


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


def _prefix(path: str) -> str:
    """Return the prefix of the names of all objects below a directory."""
    return "" if path == "/" else f"{path[1:]}/"


def _depth(folder: str) -> int:
    return folder.count("/")
