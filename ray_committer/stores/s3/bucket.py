"""One bucket of S3's API: its objects and its uploads, by one request each.

Errors are Python's own, with a slash before the object. Source: the reference of Amazon S3.
"""

from __future__ import annotations

import errno
import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from ray_committer.errors import StoreUnavailableError
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.stores.answers import (
    HttpAnswer,
    PageTokens,
    StoreUnusableError,
    foreign_answer,
    require_inside,
)
from ray_committer.stores.base import MOST_FILE_BYTES
from ray_committer.stores.http import HttpClient
from ray_committer.stores.s3 import xml
from ray_committer.stores.s3.connect import Credentials, Place
from ray_committer.stores.s3.requests import SignedRequests, raise_if_passing
from ray_committer.stores.uploads import UploadPage

PAGE_ITEMS = 1000
"""The most that the API lists, or deletes, in one request."""
STAMP_HEADER = "x-amz-meta-ray-committer-stamp"
"""The metadata of a file: the stamp of the job that made it."""

_NUMBERS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    405: errno.ENOTSUP,
    501: errno.ENOTSUP,
    412: errno.EEXIST,
}
_RIGHTS = {
    "GET": "s3:GetObject or s3:ListBucket",
    "HEAD": "s3:GetObject and s3:ListBucket",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
    "LIST": "s3:ListBucket",
    "UPLOADS": "s3:ListBucketMultipartUploads",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "encryption": "s3:GetEncryptionConfiguration",
    "versioning": "s3:GetBucketVersioning",
    "object-lock": "s3:GetBucketObjectLockConfiguration",
    "PARTS": "s3:ListMultipartUploadParts",
    "ABORT": "s3:AbortMultipartUpload",
}
"""The right that a request needs, by its method or, if that has several rights, by what it does."""
_SETTINGS = {
    "lifecycle": ("LifecycleConfiguration",),
    "encryption": ("ServerSideEncryptionConfiguration",),
    "versioning": ("VersioningConfiguration", "GetBucketVersioningResponse"),
    "object-lock": ("ObjectLockConfiguration",),
}
"""The settings of a bucket, and what the answers are called; the second name is moto's."""
_UNKNOWN = ("NotImplemented", "MethodNotAllowed")
"""What servers answer that do not know a setting."""
_COMPLETED = b"</CompleteMultipartUploadResult>"


class S3Bucket:
    """One bucket, used by many threads; objects are given by their decoded names."""

    def __init__(
        self,
        name: str,
        place: Place,
        credentials: Credentials,
        client: HttpClient,
        *,
        pays: bool = False,
    ) -> None:
        self.name = name
        self.place = place
        self._ask = SignedRequests(name, place, credentials, client, pays=pays).ask

    def head(self, name: str) -> Mapping[str, str] | None:
        """Return the headers of an object; None if there is none."""
        answer = self._ask("HEAD", name)
        if answer.status == 404:
            return None
        _etag(checked(answer, name, "HEAD"), name)
        return answer.headers

    def get(self, name: str) -> tuple[bytes, str]:
        """Return the content of an object, and its etag."""
        answer = checked(self._ask("GET", name, most_bytes=MOST_FILE_BYTES), name, "GET")
        return answer.body, _etag(answer, name)

    def put(self, name: str, data: bytes, *, old: str | None = None, new: bool = False) -> str:
        """Put an object in place, and return its etag. ``FileExistsError`` if it must be `new` and is
        not, or if the object that it replaces does not have the etag `old`; ``FileNotFoundError`` if
        that is gone."""
        headers = {"if-none-match": "*"} if new else {"if-match": f'"{old}"'} if old else {}
        answer = self._ask("PUT", name, data=data, headers=headers)
        return _etag(checked(answer, name, "PUT"), name)

    def delete(self, name: str, etag: str | None = None) -> None:
        """Delete an object, whether or not it is there; with an `etag`, ``FileExistsError`` if another
        one is there, and perhaps ``FileNotFoundError`` if none is."""
        headers = {"if-match": f'"{etag}"'} if etag is not None else {}
        checked(self._ask("DELETE", name, headers=headers), name, "DELETE")

    def delete_all(self, named: Sequence[tuple[str, str | None]]) -> None:
        """Delete at most 1,000 objects in one request, each only if it has the etag that is given. An
        object that is gone, or has another etag, is left out; any other error is raised at the end."""
        body = xml.deletion(named)
        # S3 requires it for this request, whatever else protects the body.
        md5 = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {"content-md5": md5, "content-type": "application/xml"}
        first = named[0][0]
        answer = checked(
            self._ask("POST", "", {"delete": ""}, body, headers, shown=first), first, "DELETE"
        )
        for name, failure in xml.failed_deletions(answer, f"/{first}"):
            raise_if_passing(200, failure, f"/{name}")
            # Both say that the object that was named is not there any more: then there is nothing to do.
            if failure.code not in ("PreconditionFailed", "NoSuchKey"):
                raise refusal(200, failure, name, "DELETE")

    def pages(self, prefix: str, *, delimiter: str = "", limit: int = PAGE_ITEMS) -> Iterator[xml.Page]:
        """List the objects whose names begin with `prefix`, a page of `limit` at a time. With a
        `delimiter`, names that contain it after the prefix are replaced by their part up to it."""
        query = {"list-type": "2", "prefix": prefix, "max-keys": str(limit), "encoding-type": "url"}
        if delimiter:
            query["delimiter"] = delimiter
        tokens = PageTokens(f"/{prefix}")
        while True:
            answer = self._ask("GET", "", query, shown=prefix)
            page = xml.page_of(checked(answer, prefix, "LIST"), f"/{prefix}")
            require_inside((listed.name for listed in page.objects), prefix, "Key")
            require_inside(page.prefixes, prefix, "Prefix")
            yield page
            if not page.token:
                return
            query["continuation-token"] = tokens.follow(page.token)

    def begin(self, name: str, stamp: str | None) -> str:
        """Begin an upload whose file has the job's `stamp` in its metadata; return the upload's id."""
        headers = {STAMP_HEADER: stamp} if stamp else {}
        answer = self._ask("POST", name, {"uploads": ""}, headers=headers)
        return xml.upload_id_of(checked(answer, name, "POST"), f"/{name}")

    def put_part(self, name: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part, whose numbers begin with 1; return its etag. The store checks its MD5."""
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        query = {"partNumber": str(number), "uploadId": upload}
        headers = {"content-md5": b64encode(digest).decode()}
        answer = self._ask("PUT", name, query, data, headers)
        return _etag(checked(answer, name, "PUT"), name)

    def complete(self, action: CompleteUpload, old: str | None = None) -> Answer:
        """Complete an upload where no object is or, with `old`, in the place of one with that etag."""
        name = action.dest[1:]
        headers = {"if-match": f'"{old}"'} if old else {"if-none-match": "*"}
        answer = self._ask("POST", name, {"uploadId": action.id}, xml.completion(action.parts), headers)
        if answer.status == 200:
            return _confirmed(answer, name)
        code = xml.failure_of(answer).code
        # It says nothing of the object: whether the upload was completed or aborted, only a look shows.
        if answer.status == 404 and code == "NoSuchUpload":
            return Answer.NO_UPLOAD
        # 404 with "NoSuchKey": the object to be replaced is gone, so the condition does not hold.
        if answer.status == 412 or (answer.status == 404 and code == "NoSuchKey"):
            return Answer.TAKEN
        raise refusal(answer.status, xml.failure_of(answer), name, "POST")

    def has_upload(self, name: str, upload: str) -> bool:
        """Return whether an upload is pending."""
        answer = self._ask("GET", name, {"uploadId": upload, "max-parts": "1"})
        if _has_no_upload(answer):
            return False
        if not xml.is_root(checked(answer, name, "PARTS"), *xml.PARTS):
            raise foreign_answer(answer, f"/{name}")
        return True

    def part_pages(self, name: str, upload: str) -> Iterator[xml.PartsPage]:
        """List the parts of an upload, a page at a time; ``FileNotFoundError`` if it is not pending."""
        query, markers = {"uploadId": upload}, PageTokens(f"/{name}")
        while True:
            page = xml.parts_page_of(checked(self._ask("GET", name, query), name, "PARTS"), f"/{name}")
            yield page
            if not page.marker:
                return
            query["part-number-marker"] = markers.follow(page.marker)

    def look(self) -> HttpAnswer:
        """Look at the bucket itself."""
        return self._ask("HEAD", "")

    def setting(self, name: str) -> ElementTree.Element | None:
        """Return a setting of the bucket; None if it has none, or the server does not know it."""
        answer = self._ask("GET", "", {name: ""})
        if answer.status in (404, 405, 501) or xml.failure_of(answer).code in _UNKNOWN:
            return None
        return xml.parsed(checked(answer, "", name), "/", *_SETTINGS[name])

    def abort(self, name: str, upload: str) -> None:
        """Abort an upload; nothing if the store does not have it any more."""
        answer = self._ask("DELETE", name, {"uploadId": upload})
        if not _has_no_upload(answer):
            checked(answer, name, "ABORT")

    def upload_page(self, prefix: str, after: tuple[str, str] | None) -> UploadPage:
        """List a page of the pending uploads of names that begin with `prefix`, after a name and id."""
        # SeaweedFS says that it encodes the names here, but does not. So that is asked for only if a
        # name has a character that XML cannot hold.
        query = {"uploads": "", "prefix": prefix, "max-uploads": str(PAGE_ITEMS)}
        if after is not None:
            query["key-marker"], query["upload-id-marker"] = after
        try:
            page = self._ask_for_uploads(query, prefix)
        except StoreUnavailableError:
            page = self._ask_for_uploads({**query, "encoding-type": "url"}, prefix)
        require_inside((upload.path[1:] for upload in page.uploads), prefix, "Key")
        return page

    def _ask_for_uploads(self, query: Mapping[str, str], prefix: str) -> UploadPage:
        answer = self._ask("GET", "", query, shown=prefix)
        return xml.upload_page_of(checked(answer, prefix, "UPLOADS"), f"/{prefix}")


def _has_no_upload(answer: HttpAnswer) -> bool:
    """Whether an answer about an upload says that there is none; Ceph names the object instead."""
    return answer.status == 404 and xml.failure_of(answer).code in ("NoSuchUpload", "NoSuchKey")


def _confirmed(answer: HttpAnswer, name: str) -> Answer:
    """What an answer with status 200 means, which can hold an error."""
    # S3 begins this answer before the work is done: status 200 alone proves nothing.
    if answer.body.endswith(_COMPLETED) or xml.is_root(answer, "CompleteMultipartUploadResult"):
        return Answer.DONE
    if xml.is_root(answer, "Error"):
        return Answer.UNCLEAR
    raise foreign_answer(answer, f"/{name}")


def _etag(answer: HttpAnswer, name: str) -> str:
    etag = answer.headers.get("etag", "").strip('"')
    if not etag:
        text = "the server sends no ETag, by which files are told apart: use a server that does"
        raise StoreUnusableError(errno.EPROTO, text, f"/{name}")
    return etag


def checked(answer: HttpAnswer, name: str, what: str) -> HttpAnswer:
    """Return a successful answer; raise an error with the store's message for any other."""
    if 200 <= answer.status < 300:
        return answer
    raise refusal(answer.status, xml.failure_of(answer), name, what)


def refusal(status: int, failure: xml.Failure, name: str, what: str) -> OSError:
    """The error for an answer that refuses what a request does, a key of `_RIGHTS`."""
    number = _NUMBERS.get(status, errno.EIO)
    if failure.code == "AccessDenied":
        number = errno.EACCES
    message = failure.message or failure.code or "the store refused the request"
    right = f"; it needs the right {_RIGHTS[what]}" if number == errno.EACCES else ""
    return OSError(
        number, f"{message} (HTTP {status} {failure.code}){right}".replace(" )", ")"), f"/{name}"
    )
