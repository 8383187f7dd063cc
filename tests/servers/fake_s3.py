"""A strict S3 in memory: conditions, uploads, and the answers in which servers differ (`SERVERS`).

`FakeS3.respond` is the server without a network. `FakeS3Server` answers HTTP on a thread. `Direct` takes
the place of the store's HTTP client, so that thousands of schedules cost no sockets. Faults are injected
by `Faults`, before or after a request is carried out.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import trustme

from ray_committer.protocol.paths import is_inside
from ray_committer.stores.answers import HttpAnswer, raise_if_unanswered
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store

LEAST_PART = 5 << 20
KINDS = ("uploads", "uploadId", "delete", "list-type", "lifecycle")
_ALWAYS = {"x-amz-request-id": "fake"}


@dataclass(slots=True)
class Object:
    data: bytes
    etag: str
    headers: dict[str, str] = field(default_factory=dict)
    modified: float = field(default_factory=time.time)


@dataclass(slots=True)
class Part:
    data: bytes
    etag: str
    came: float = field(default_factory=time.time)


@dataclass(slots=True)
class Upload:
    name: str
    headers: dict[str, str]
    began: float
    parts: dict[int, Part] = field(default_factory=dict)


Hook = Callable[[str, str, str], None]
"""Called with a request's method, object and query, before or after it is carried out."""


@dataclass
class FakeS3:
    """Buckets in one process. `forgets`: a second Complete, or an abort of what has ended, says
    NoSuchUpload, as MinIO does; else both are confirmed, by AWS for hours. `hides_md5`: the etags of
    parts are no MD5, as with keys of KMS. `ignores` are the conditions that it ignores: "put",
    "complete", "delete". `denied` are methods, each with a query argument or "", that are answered with
    AccessDenied."""

    forgets: bool = False
    hides_md5: bool = False
    has_files: bool = False
    """Keeps objects as files, as SeaweedFS does: a listing shows a directory whose objects are gone, and
    a second Complete must meet its condition again. Says that a listing of uploads has encoded names."""
    revives: bool = False
    """Writes an object with If-Match although none is there, as some releases of MinIO did."""
    ignores: frozenset[str] = frozenset()
    denied: set[tuple[str, str]] = field(default_factory=set)
    missing: int = 404
    """The status with which a condition is refused where no object is."""
    refuses: str = ""
    """The code with which it refuses each request, whoever makes it."""
    conflict: Callable[[str, str, str], str | None] = lambda *_: None
    """Returns the code of an answer 409 for a request's method, object and query; None for no such
    answer. A deletion of many objects is asked about for each of them, as DELETE without a query."""
    has_uploads: bool = True
    """False: it has no multipart uploads."""
    abort_rules: tuple[tuple[str, int], ...] = ()
    """The rules of all buckets that abort uploads: a prefix, and days."""
    region: str = "us-east-1"
    page: int = 1000
    lists_prefixes: bool = True
    """False: uploads are listed for an exact name alone, as MinIO does."""
    buckets: dict[str, dict[str, Object]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    """The etags of completed uploads, and empty ones of aborted uploads."""
    directories: set[str] = field(default_factory=set)
    """Those that objects were ever in."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)
    numbers: int = 0

    def clear(self) -> None:
        """Forget all objects and uploads."""
        for kept in (self.buckets, self.uploads, self.ended, self.directories, self.requests):
            kept.clear()

    def copy(self) -> FakeS3:
        """A server with the same objects and uploads, and no requests yet."""
        return replace(
            self,
            buckets={name: dict(objects) for name, objects in self.buckets.items()},
            uploads=dict(self.uploads),
            ended=dict(self.ended),
            directories=set(self.directories),
            requests=[],
            lock=threading.RLock(),
        )

    def respond(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        bucket, _, name = unquote(path[1:]).partition("/")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        with self.lock:
            self.requests.append((method, name, query))
            if self.refuses:
                return _error(403, self.refuses, head=method == "HEAD")
            if bucket not in self.buckets:
                return _error(404, "NoSuchBucket", head=method == "HEAD")
            kind = next((one for one in KINDS if one in asked), "")
            if kind in ("uploads", "uploadId") and not self.has_uploads:
                return _error(501, "NotImplemented")
            if (code := self.conflict(method, name, query)) is not None:
                return _error(409, code, head=method == "HEAD")
            if (method, kind) in self.denied:
                return _error(403, "AccessDenied", head=method == "HEAD")
            if f"/{self.region}/" not in headers.get("authorization", f"/{self.region}/"):
                region = f"<Region>{self.region}</Region>"
                told = _error(400, "AuthorizationHeaderMalformed", more=region, head=method == "HEAD")
                return told._replace(headers={**told.headers, "x-amz-bucket-region": self.region})
            handle = getattr(self, f"_{method.lower()}_{kind.replace('-', '_').lower()}".rstrip("_"))
            answer: HttpAnswer = handle(self.buckets[bucket], name, asked, headers, body)
            return answer

    def _head(self, objects: dict[str, Object], name: str, *_: Any) -> HttpAnswer:
        if not name:
            return HttpAnswer(200, {**_ALWAYS, "x-amz-bucket-region": self.region}, b"")
        found = objects.get(name)
        return _shown(found, b"") if found else _error(404, "NoSuchKey", head=True)

    def _get(self, objects: dict[str, Object], name: str, *_: Any) -> HttpAnswer:
        found = objects.get(name)
        return _shown(found, found.data) if found else _error(404, "NoSuchKey")

    def _put(self, objects: dict[str, Object], name: str, asked, headers, body: bytes) -> HttpAnswer:
        refused = self._refused("put", objects, name, headers)
        if refused:
            return refused
        self._put_object(objects, name, Object(body, hashlib.md5(body).hexdigest(), _kept(headers)))
        return _shown(objects[name], b"")

    def _put_object(self, objects: dict[str, Object], name: str, content: Object) -> None:
        objects[name] = content
        self.directories.update(name[: at + 1] for at, letter in enumerate(name) if letter == "/")

    def _delete(self, objects: dict[str, Object], name: str, asked, headers, body: bytes) -> HttpAnswer:
        refused = self._refused("delete", objects, name, headers)
        if refused:
            return refused
        objects.pop(name, None)
        return HttpAnswer(204, _ALWAYS, b"")

    def _post_uploads(self, objects, name: str, asked, headers, body) -> HttpAnswer:
        self.numbers += 1
        upload = f"id/{self.numbers}+"
        self.uploads[upload] = Upload(name, _kept(headers), time.time())
        return _xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                    f"</InitiateMultipartUploadResult>")  # fmt: skip

    def _put_uploadid(self, objects, name: str, asked, headers, body: bytes) -> HttpAnswer:
        if self._upload(name, asked) is None:
            return _error(404, "NoSuchUpload")
        etag = hashlib.md5(body).hexdigest()
        etag = etag[:8] + "-kms" if self.hides_md5 else etag
        self.uploads[asked["uploadId"]].parts[int(asked["partNumber"])] = Part(body, etag)
        return HttpAnswer(200, {**_ALWAYS, "etag": f'"{etag}"'}, b"")

    def _get_uploadid(self, objects, name: str, asked, headers, body) -> HttpAnswer:
        if self._upload(name, asked) is None:
            return _error(404, "NoSuchUpload")
        parts = sorted(self.uploads[asked["uploadId"]].parts.items())
        left = [one for one in parts if one[0] > int(asked.get("part-number-marker", 0))]
        page = min(self.page, int(asked.get("max-parts", 1000)))
        text = "".join(
            f"<Part><PartNumber>{number}</PartNumber><Size>{len(part.data)}</Size>"
            f"<LastModified>{_moment(part.came)}</LastModified></Part>"
            for number, part in left[:page]
        )
        if len(left) > page:
            text += f"<IsTruncated>true</IsTruncated><NextPartNumberMarker>{left[page - 1][0]}"
            text += "</NextPartNumberMarker>"
        return _xml(f"<ListPartsResult>{text}</ListPartsResult>")

    def _get_lifecycle(self, objects, name: str, asked, headers, body) -> HttpAnswer:
        rules = "".join(
            f"<Rule><Filter><Prefix>{escape(prefix)}</Prefix></Filter><Status>Enabled</Status>"
            f"<AbortIncompleteMultipartUpload><DaysAfterInitiation>{days}</DaysAfterInitiation>"
            f"</AbortIncompleteMultipartUpload></Rule>"
            for prefix, days in self.abort_rules
        )
        if not rules:
            return _error(404, "NoSuchLifecycleConfiguration")
        return _xml(f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>")

    def _delete_uploadid(self, objects, name: str, asked, headers, body) -> HttpAnswer:
        upload = asked["uploadId"]
        if self._upload(name, asked) is None and (self.forgets or upload not in self.ended):
            return _error(404, "NoSuchUpload")
        if self.uploads.pop(upload, None) is not None:
            self.ended[upload] = ""
        return HttpAnswer(204, _ALWAYS, b"")

    def _post_uploadid(self, objects, name: str, asked, headers, body: bytes) -> HttpAnswer:
        upload = self._upload(name, asked)
        if upload is None:
            refused = self._refused("complete", objects, name, headers) if self.has_files else None
            etag = self.ended.get(asked["uploadId"]) if not self.forgets else None
            return refused or (_completed(name, etag) if etag else _error(404, "NoSuchUpload"))
        refused = self._refused("complete", objects, name, headers)
        if refused:
            return refused
        wanted = [
            (int(one.findtext("PartNumber") or 0), (one.findtext("ETag") or "").strip('"'))
            for one in ElementTree.fromstring(body).findall("Part")
        ]
        found = [(upload.parts.get(number), etag) for number, etag in wanted]
        if any(part is None or part.etag != etag for part, etag in found):
            return _error(400, "InvalidPart")
        parts = [upload.parts[number].data for number, _ in wanted]
        if any(len(part) < LEAST_PART for part in parts[:-1]):
            return _error(400, "EntityTooSmall")
        sums = b"".join(hashlib.md5(part).digest() for part in parts)
        etag = f"{hashlib.md5(sums).hexdigest()}-{len(parts)}"
        etag = f"kms{self.numbers}-{len(parts)}" if self.hides_md5 else etag
        self._put_object(objects, name, Object(b"".join(parts), etag, upload.headers))
        del self.uploads[asked["uploadId"]]
        self.ended[asked["uploadId"]] = etag
        return _completed(name, etag)

    def _post_delete(self, objects: dict[str, Object], name, asked, headers, body: bytes) -> HttpAnswer:
        errors = ""
        for one in ElementTree.fromstring(body).findall("Object"):
            key, etag = one.findtext("Key") or "", (one.findtext("ETag") or "").strip('"')
            found = objects.get(key)
            if (code := self.conflict("DELETE", key, "")) is not None:
                errors += f"<Error><Key>{escape(key)}</Key><Code>{code}</Code></Error>"
            elif found and etag and "delete" not in self.ignores and found.etag != etag:
                errors += f"<Error><Key>{escape(key)}</Key><Code>PreconditionFailed</Code></Error>"
            else:
                objects.pop(key, None)
        return _xml(f"<DeleteResult>{errors}</DeleteResult>")

    def _get_list_type(self, objects: dict[str, Object], name, asked, headers, body) -> HttpAnswer:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after, limit = asked.get("continuation-token", ""), min(self.page, int(asked["max-keys"]))
        entries: dict[str, Object | None] = {}
        emptied = {one: Object(b"", "") for one in self.directories if self.has_files and delimiter}
        for key in sorted(one for one in {*objects, *emptied} if one.startswith(prefix)):
            rest = key[len(prefix) :]
            is_below = delimiter and delimiter in rest
            entries[prefix + rest.partition(delimiter)[0] + delimiter if is_below else key] = (
                None if is_below else objects.get(key) or emptied[key]
            )
        if len(entries) > 1 and prefix in entries and prefix not in objects:
            del entries[prefix]
        found = [one for one in sorted(entries.items()) if one[0] > after]
        text = "".join(_listed(key, item) for key, item in found[:limit])
        if len(found) > limit:
            text += (
                f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(found[limit - 1][0])}"
            )
            text += "</NextContinuationToken>"
        return _xml(f"<ListBucketResult><EncodingType>url</EncodingType>{text}</ListBucketResult>")

    def _get_uploads(self, objects, name, asked, headers, body) -> HttpAnswer:
        prefix, after = (
            asked.get("prefix", ""),
            (asked.get("key-marker", ""), asked.get("upload-id-marker")),
        )
        found = sorted(
            (one.name, upload, one.began)
            for upload, one in self.uploads.items()
            if one.name.startswith(prefix) and (self.lists_prefixes or one.name == prefix)
        )
        left = [one for one in found if (one[0], one[1]) > (after[0], after[1] or "")]
        is_url = asked.get("encoding-type") == "url"
        encode = quote_plus if is_url and not self.has_files else escape
        page = uploads_page(left[: self.page], is_last=len(left) <= self.page, encode=encode)
        told = b"<EncodingType>url</EncodingType></ListM" if is_url else b"</ListM"
        return page._replace(body=page.body.replace(b"</ListM", told))

    def _upload(self, name: str, asked: Mapping[str, str]) -> Upload | None:
        found = self.uploads.get(asked["uploadId"])
        return found if found is not None and found.name == name else None

    def _refused(self, what: str, objects: dict[str, Object], name: str, headers) -> HttpAnswer | None:
        """The answer if a condition of the request does not hold."""
        if what in self.ignores:
            return None
        found, wanted = objects.get(name), headers.get("if-match", "").strip('"')
        if wanted and found is None:
            code = "NoSuchKey" if self.missing == 404 else "PreconditionFailed"
            return None if self.revives else _error(self.missing, code)
        if (wanted and found.etag != wanted) or (headers.get("if-none-match") and found is not None):
            return _error(412, "PreconditionFailed")
        return None


def uploads_page(
    found: Sequence[tuple[str, str, float]], *, is_last: bool, encode: Callable[[str], str] = escape
) -> HttpAnswer:
    """A page of a listing of uploads: the object of each, its id, and when it began."""
    text = "".join(
        f"<Upload><Key>{encode(key)}</Key><UploadId>{upload}</UploadId>"
        f"<Initiator><ID>arn:aws:iam::1:user/spark</ID></Initiator>"
        f"<Initiated>{_moment(began)}</Initiated></Upload>"
        for key, upload, began in found
    )
    if not is_last:
        key, upload, _ = found[-1]
        text += f"<IsTruncated>true</IsTruncated><NextKeyMarker>{encode(key)}</NextKeyMarker>"
        text += f"<NextUploadIdMarker>{upload}</NextUploadIdMarker>"
    return _xml(f"<ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>")


SERVERS: dict[str, dict[str, Any]] = {
    "amazon": {},
    "minio": {"forgets": True},
    "seaweedfs": {"has_files": True},
}
"""The fields of a `FakeS3` that answers as these servers do, where they differ."""


class Direct:
    """In the place of `HttpClient`: passes each request to a `FakeS3` without a network, between two
    hooks. An exception of `after` loses the answer."""

    def __init__(self, server: FakeS3, *, before: Hook | None = None, after: Hook | None = None) -> None:
        self.server, self.before, self.after = server, before, after

    def request(
        self, method: str, url: str, *, path: str, headers, data: bytes | None = None, **_: Any
    ) -> HttpAnswer:
        split = urlsplit(url)
        told = method, unquote(split.path), split.query
        if self.before:
            self.before(*told)
        answer = self.server.respond(method, split.path, split.query, headers, data or b"")
        if self.after:
            self.after(*told)
        raise_if_unanswered(path, method, answer.status, answer.headers)
        return answer

    def close(self) -> None:
        pass


OPTIONS = {"endpoint_url": "http://fake", "key": "key", "secret": "secret", "region": "us-east-1"}


def direct_store(
    server: FakeS3, *, before: Hook | None = None, after: Hook | None = None, **options: Any
) -> S3Store:
    """A store on a bucket of the fake, without a network."""
    server.buckets.setdefault("bucket", {})
    client: Any = Direct(server, before=before, after=after)
    return S3Store(StoreSpec("s3", "bucket", {**OPTIONS, **options}), client=client, retry_seconds=1.0)


class FakeS3Store(S3Store):
    """A store on an own `FakeS3`, which can be copied with all that is in it. It has the URL of a
    `MemoryStore`, so that tests of both read the same messages."""

    def __init__(self, fake: FakeS3 | None = None) -> None:
        self.fake = fake or FakeS3(buckets={"bucket": {}})
        client: Any = Direct(self.fake)
        super().__init__(StoreSpec("s3", "bucket", OPTIONS), client=client, retry_seconds=1.0)
        self.spec = StoreSpec("memory", "test")

    def files(self, directory: str = "/") -> dict[str, bytes]:
        """As `MemoryStore.files`."""
        found = self.fake.buckets["bucket"].items()
        paths = {f"/{name}": one.data for name, one in found if not name.endswith("/")}
        return {path: paths[path] for path in sorted(paths) if is_inside(path, directory)}

    def copy(self) -> FakeS3Store:
        return FakeS3Store(self.fake.copy())


class FakeS3Server:
    """A `FakeS3` behind HTTP, for other processes; on a thread between `start` and `stop`. `hold` is
    called before each request, and can wait. With an authority, it has a certificate of that."""

    def __init__(self, fake: FakeS3, *, tls: trustme.CA | None = None) -> None:
        self.fake = fake
        self.hold: Hook = lambda *_: None

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
                path, _, query = handler.path.partition("?")
                headers = {name.lower(): value for name, value in handler.headers.items()}
                self.hold(handler.command, unquote(path), query)
                found = fake.respond(handler.command, path, query, headers, body)
                handler.send_response(found.status)
                for name, value in found.headers.items():
                    if name != "content-length":
                        handler.send_header(name, value)
                is_head = handler.command == "HEAD"
                length = found.headers.get("content-length") if is_head else None
                handler.send_header("Content-Length", length or str(len(found.body)))
                handler.end_headers()
                if not is_head:
                    handler.wfile.write(found.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.issue_cert("127.0.0.1").configure_cert(own)
            self._server.socket = own.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http://", "https://")

    @property
    def storage_options(self) -> dict[str, Any]:
        return {**OPTIONS, "endpoint_url": self.url}

    def start(self) -> FakeS3Server:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}


def _shown(found: Object, body: bytes) -> HttpAnswer:
    modified = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(found.modified))
    headers = {
        **_ALWAYS,
        **found.headers,
        "etag": f'"{found.etag}"',
        "last-modified": modified,
        "content-length": str(len(found.data) if body == b"" else len(body)),
    }
    return HttpAnswer(200, headers, body)


def _completed(name: str, etag: str) -> HttpAnswer:
    return _xml(f"<CompleteMultipartUploadResult><Key>{escape(name)}</Key><ETag>{etag}</ETag>"
                f"</CompleteMultipartUploadResult>")  # fmt: skip


def _listed(key: str, item: Object | None) -> str:
    if item is None:
        return f"<CommonPrefixes><Prefix>{quote_plus(key)}</Prefix></CommonPrefixes>"
    return (
        f"<Contents><Key>{quote_plus(key)}</Key><Size>{len(item.data)}</Size>"
        f"<ETag>&quot;{item.etag}&quot;</ETag>"
        f"<LastModified>{_moment(item.modified)}</LastModified></Contents>"
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000Z"


def _xml(text: str, status: int = 200) -> HttpAnswer:
    named = re.sub(r"^<(\w+)>", r'<\1 xmlns="http://s3.amazonaws.com/doc/2006-03-01/">', text)
    return HttpAnswer(status, {**_ALWAYS, "content-type": "application/xml"}, named.encode())


def _error(status: int, code: str, *, head: bool = False, more: str = "") -> HttpAnswer:
    if head:
        return HttpAnswer(status, _ALWAYS, b"")
    text = f"<Error><Code>{code}</Code><Message>{code} as a sentence</Message>{more}</Error>"
    return HttpAnswer(status, {**_ALWAYS, "content-type": "application/xml"}, text.encode())
