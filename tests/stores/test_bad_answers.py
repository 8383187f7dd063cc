"""What a server of a store's API answers wrongly is one error that names the place and the field."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ray_committer
from ray_committer.errors import RayCommitterError
from ray_committer.stores.answers import StoreUnusableError
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import open_store
from ray_committer.stores.uploads import pending_uploads
from tests.servers.canned import CannedServer, Reply

Ask = Callable[[StoreOperations], object]


@pytest.fixture
def server() -> Iterator[CannedServer]:
    server = CannedServer()
    yield server
    server.stop()


def listing(entry: str = "", *, more: str = "", root: str = "ListBucketResult") -> Reply:
    return Reply(body=f"<{root}>{entry}{more}</{root}>".encode())


def s3_object(**fields: str) -> str:
    given = {"Key": "d/a", "Size": "1", "ETag": "e", "LastModified": "2026-01-01T00:00:00Z", **fields}
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in given.items() if value)
    return f"<Contents>{inner}</Contents>"


def gcs_object(**fields: Any) -> dict[str, Any]:
    given = {"name": "d/a", "generation": "1", "size": "1", "updated": "2026-01-01T00:00:00Z", **fields}
    return {name: value for name, value in given.items() if value is not None}


def of(value: object) -> Reply:
    return Reply(headers={"Content-Type": "application/json"}, body=json.dumps(value).encode())


def gcs_page(**fields: Any) -> Reply:
    return of({"items": [gcs_object(**fields)]})


def dfs_page(**fields: Any) -> Reply:
    return of({"paths": [{"name": "d/a", "contentLength": "1", "etag": "e", **fields}]})


def hdfs_page(**fields: Any) -> Reply:
    one = {"pathSuffix": "a", "type": "FILE", "length": 1, "modificationTime": 1, **fields}
    kept = {name: value for name, value in one.items() if value is not None}
    return of({"FileStatuses": {"FileStatus": [kept]}})


def list_it(store: StoreOperations) -> object:
    return store.list_status("/d")


def list_all(store: StoreOperations) -> object:
    return store.list_files("/d")


def look(store: StoreOperations) -> object:
    return store.get_status("/d/a")


def read(store: StoreOperations) -> object:
    return store.read("/d/a")


def write(store: StoreOperations) -> object:
    return store.advance("/d/a", None, "text")


def uploads(store: StoreOperations) -> object:
    return list(pending_uploads(store, "/d"))


def parts(store: StoreOperations) -> object:
    return store.uploaded_parts("/d/a", "id")


def begin(store: StoreOperations) -> object:
    return store.begin_upload("/d/a", None)


def upload(**fields: str) -> str:
    given = {"Key": "d/a", "UploadId": "u", "Initiated": "2026-01-01T00:00:00Z", **fields}
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in given.items() if value)
    return f"<Upload>{inner}</Upload>"


UPLOADS, PARTS = "ListMultipartUploadsResult", "ListPartsResult"
CUT = "<IsTruncated>true</IsTruncated>"
HEAD = {"Content-Length": "1", "ETag": '"e"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}

MALFORMED: list[tuple[str, Ask, Reply, str]] = [
    ("s3", list_it, listing(s3_object(Size="many")), "Size"),
    ("s3", list_all, listing(s3_object(Size="-1")), "Size"),
    ("s3", list_all, listing(s3_object(Size="")), "Size"),
    ("s3", list_all, listing(s3_object(Size="9" * 5000)), "Size"),
    ("s3", list_all, listing(s3_object(ETag="")), "ETag"),
    ("s3", list_all, listing(s3_object(Key="")), "Key"),
    ("s3", list_all, listing(s3_object(Key="other/a")), "Key"),
    ("s3", list_all, listing(s3_object(LastModified="yesterday")), "LastModified"),
    ("s3", list_all, listing(s3_object(LastModified="2026-13-01T00:00:00Z")), "LastModified"),
    ("s3", list_all, listing(s3_object(), more=CUT), "NextContinuationToken"),
    ("s3", list_it, listing("<CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes>"), "Prefix"),
    ("s3", look, Reply(headers={**HEAD, "Last-Modified": "yesterday"}), "Last-Modified"),
    ("s3", read, Reply(body=b"x"), "ETag"),
    ("s3", write, Reply(), "ETag"),
    ("s3", uploads, listing(upload(Initiated="soon"), root=UPLOADS), "Initiated"),
    ("s3", uploads, listing(upload(UploadId=""), root=UPLOADS), "UploadId"),
    ("s3", uploads, listing(upload(Key="x/a"), root=UPLOADS), "Key"),
    ("s3", uploads, listing(upload(), more=CUT, root=UPLOADS), "NextKeyMarker"),
    ("s3", parts, listing("<Part><Size>x</Size></Part>", root=PARTS), "Size"),
    ("s3", parts, listing("<Part><Size>1</Size></Part>", more=CUT, root=PARTS), "NextPartNumberMarker"),
    ("gs", list_it, gcs_page(size="many"), "size"),
    ("gs", list_all, gcs_page(size=None, generation="one"), "generation"),
    ("gs", list_all, gcs_page(generation=None), "generation"),
    ("gs", list_all, gcs_page(updated="yesterday"), "updated"),
    ("gs", list_all, gcs_page(name="other/a"), "name"),
    ("gs", list_all, gcs_page(size=1), "size"),
    ("gs", list_it, of({"prefixes": ["x/"]}), "prefixes"),
    ("gs", look, of(gcs_object(size="many")), "size"),
    ("gs", read, Reply(headers={"x-goog-generation": "one"}), "x-goog-generation"),
    ("gs", write, of({}), "generation"),
    ("abfs", list_it, dfs_page(contentLength="many"), "contentLength"),
    ("abfs", list_all, dfs_page(contentLength="-1"), "contentLength"),
    ("abfs", list_all, dfs_page(lastModified="yesterday"), "Last-Modified"),
    ("abfs", list_all, dfs_page(name="other/a"), "name"),
    ("abfs", list_all, dfs_page(name=1), "name"),
    ("abfs", look, Reply(headers={**HEAD, "Last-Modified": "yesterday"}), "Last-Modified"),
    ("webhdfs", list_it, hdfs_page(length="many"), "length"),
    ("webhdfs", list_all, hdfs_page(length=-1), "length"),
    ("webhdfs", list_all, hdfs_page(modificationTime=None), "modificationTime"),
    ("webhdfs", list_all, hdfs_page(pathSuffix="../x"), "pathSuffix"),
    ("webhdfs", look, of({"FileStatus": {"type": "FILE"}}), "pathSuffix"),
    ("webhdfs", read, Reply(307, {"Location": "http://[x"}), "Location"),
]


@pytest.mark.parametrize(("scheme", "ask", "reply", "field"), MALFORMED)
def test_a_field_that_is_malformed_is_named_with_its_place(
    server: CannedServer, scheme: str, ask: Ask, reply: Reply, field: str
):
    store = server.open(scheme)
    server.answer = lambda *_: reply
    with pytest.raises(StoreUnusableError, match=field) as caught:
        ask(store)
    assert caught.value.filename.startswith("/d")


def repeating(scheme: str, method: str, path: str) -> Reply:
    """A page with the token of the page after it, which is always the same."""
    match scheme:
        case "s3" if "uploads" in path:
            markers = (
                f"{CUT}<NextKeyMarker>d/a</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
            )
            return listing(upload(), more=markers, root=UPLOADS)
        case "s3" if "uploadId" in path:
            marker = f"{CUT}<NextPartNumberMarker>1</NextPartNumberMarker>"
            return listing("<Part><Size>1</Size></Part>", more=marker, root=PARTS)
        case "s3":
            token = f"{CUT}<NextContinuationToken>t</NextContinuationToken>"
            return listing(s3_object(), more=token)
        case "gs":
            return of({"items": [gcs_object()], "nextPageToken": "t"})
        case _ if method == "DELETE":
            return Reply(headers={"x-ms-continuation": "t"})
        case _:
            page = dfs_page()
            return page._replace(headers={**page.headers, "x-ms-continuation": "t"})


def remove(store: StoreOperations) -> object:
    return store.delete_directory("/d")


@pytest.mark.parametrize(
    ("scheme", "ask"),
    [
        ("s3", list_it), ("s3", list_all), ("s3", uploads), ("s3", parts), ("s3", remove),
        ("gs", list_it), ("gs", list_all),
        ("abfs", list_it), ("abfs", list_all), ("abfs", remove),
    ],
)  # fmt: skip
def test_a_listing_that_begins_again_is_an_error(server: CannedServer, scheme: str, ask: Ask):
    store = server.open(scheme)
    server.answer = lambda method, path: repeating(scheme, method, path)
    with pytest.raises(StoreUnusableError, match="begins again") as caught:
        ask(store)
    assert caught.value.filename.startswith("/d")


LONG = [pytest.param(one, read, marks=pytest.mark.slow) for one in ("s3", "gs", "abfs", "webhdfs")]


@pytest.mark.parametrize(
    ("scheme", "ask"),
    [
        ("s3", list_it),
        ("gs", list_it),
        ("abfs", list_it),
        ("webhdfs", look),
        *LONG,
        pytest.param("webhdfs", list_it, marks=pytest.mark.slow),
    ],
)
def test_an_answer_without_end_is_an_error(server: CannedServer, scheme: str, ask: Ask):
    store = open_store(server.spec(scheme), retry_seconds=60.0)
    server.answer = lambda *_: Reply(body=b" " * (4 << 20), endless=True)
    with pytest.raises(StoreUnusableError, match=r"has more than \d+ bytes") as caught:
        ask(store)
    assert caught.value.filename.startswith("/d")


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs", "webhdfs"])
def test_what_never_passes_is_not_repeated_for_minutes(server: CannedServer, scheme: str):
    """With the usual 300 seconds; the server does not speak TLS, and nothing may hide the reason."""
    spec = server.spec(scheme)
    options = {
        name: value.replace("http://", "https://") for name, value in spec.storage_options.items()
    }
    began = time.monotonic()
    with pytest.raises((RayCommitterError, OSError), match="no TLS there"):
        ray_committer.setup_job(f"{scheme}://{spec.authority}/t", storage_options=options)
    assert time.monotonic() - began < 30
