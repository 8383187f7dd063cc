"""What S3 shows of an object, as the status of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime

from ray_committer.stores.answers import read_field, whole_number
from ray_committer.stores.base import FileStatus
from ray_committer.stores.s3 import xml
from ray_committer.stores.s3.bucket import STAMP_HEADER


def listed(page: xml.Page) -> list[FileStatus]:
    """The directories and files in a page of a listing, without the mark of the listed directory."""
    directories = [FileStatus(f"/{name[:-1]}", is_directory=True) for name in page.prefixes]
    return directories + [status_of(entry) for entry in page.objects if not entry.name.endswith("/")]


def children(prefix: str, objects: Iterable[xml.Listed]) -> dict[str, FileStatus]:
    """What is directly in the directory with this prefix, by path, if these objects are below it."""
    statuses: dict[str, FileStatus] = {}
    for entry in objects:
        name, slash, _ = entry.name[len(prefix) :].partition("/")
        if name or slash:
            path = f"/{prefix}{name}"
            statuses[path] = FileStatus(path, is_directory=True) if slash else status_of(entry)
    return statuses


def status_of(entry: xml.Listed) -> FileStatus:
    """The status of an object in a listing."""
    return FileStatus(
        path=f"/{entry.name}",
        is_directory=False,
        size=entry.size,
        modified_milliseconds=xml.milliseconds(entry.modified, f"/{entry.name}"),
        etag=entry.etag,
        version=entry.etag,
    )


def status_of_head(path: str, headers: Mapping[str, str]) -> FileStatus:
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
