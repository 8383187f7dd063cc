"""The JSON API of Google Cloud Storage for one bucket: each request is made once, with a deadline.

gcsfs repeats a request six times, ignores ``Retry-After``, waits without end, and copies and deletes
if a move is refused, so only its credentials are used. Source: the API's reference.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.protocol.prepared import prepare
from ray_committer.stores.answers import (
    CredentialsRefusedError,
    HttpAnswer,
    PageTokens,
    bad_field,
    decoded,
    foreign_answer,
    raise_if_unanswered,
    read_field,
    require_inside,
    whole_number,
)
from ray_committer.stores.base import MOST_FILE_BYTES
from ray_committer.stores.gcs.batch import BATCH_HEADERS, decode_batch, encode_batch
from ray_committer.stores.gcs.credentials import GcsCredentials
from ray_committer.stores.http import MOST_BYTES, HttpClient

PAGE_ITEMS = 1000
"""The most that the API lists in one request."""

_FIELDS = "name,generation,size,crc32c,updated"
_NUMBERS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    409: errno.EEXIST,
    412: errno.EEXIST,
}
_MORE = 308
"""The answer if an upload lacks bytes."""
_BYTES = {"Content-Type": "application/octet-stream"}
_ANOTHER = (409, 412)
"""The answers if another generation is there than the requested one."""
_NO_BATCHES = (404, 405, 501)
"""The answers of a server without batches, such as some proxies in front of Google's."""
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*")


class GcsObject(msgspec.Struct, frozen=True, gc=False):
    """One object as the API describes it; numbers are strings."""

    name: str
    generation: str
    size: str = "0"
    crc32c: str | None = None
    updated: str | None = None


class GcsPage(msgspec.Struct, frozen=True, rename="camel"):
    """One page of a listing."""

    items: list[GcsObject] = []
    prefixes: list[str] = []
    next_page_token: str = ""


class _Placed(msgspec.Struct, frozen=True):
    generation: str


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Folders(msgspec.Struct, frozen=True, rename="camel"):
    items: list[_Named] = []
    next_page_token: str = ""


class _Enabled(msgspec.Struct, frozen=True):
    enabled: bool = False


class _Retention(msgspec.Struct, frozen=True, rename="camel"):
    retention_duration_seconds: int | str = 0


class _Layout(msgspec.Struct, frozen=True, rename="camel"):
    hierarchical_namespace: _Enabled = _Enabled()


class GcsSettings(msgspec.Struct, frozen=True, rename="camel"):
    """A bucket's settings that cost money: how long deleted objects stay, and if versions do."""

    soft_delete_policy: _Retention = _Retention()
    versioning: _Enabled = _Enabled()


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _Failure(msgspec.Struct, frozen=True):
    error: _Error = _Error()


prepare(GcsObject, GcsPage, GcsSettings, _Placed, _Folders, _Layout, _Failure)


class GcsBucket:
    """One bucket, used by many threads; objects and folders are given by their decoded names. Errors are
    Python's own, as stores raise them; they name the object with a slash before it."""

    def __init__(
        self, name: str, storage_options: Mapping[str, Any], *, client: HttpClient | None = None
    ) -> None:
        self._credentials = GcsCredentials(name, storage_options)
        self._client = client or HttpClient()
        self.has_batches = True
        self._sent: set[tuple[str, int]] = set()  # parts whose arrival is not known
        bucket = f"storage/v1/b/{quoted(name)}"
        self._bucket = f"{self._credentials.base}/{bucket}"
        self._objects = f"{self._bucket}/o"
        self._uploads = f"{self._credentials.base}/upload/{bucket}/o"
        self._batches = f"{self._credentials.base}/batch/storage/v1"
        payer = self._credentials.user_project
        self._payer = {"userProject": payer} if payer else {}
        self._move_query = f"?{urlencode({'fields': 'generation', **self._payer})}"

    def move(self, source: str, dest: str, generation: str | None, *, old: str | None) -> None:
        """Rename an object atomically. ``FileExistsError`` unless `source` has this `generation`, and
        the object at `dest` the generation `old`: 0 is no object, None is any generation."""
        url = f"{self._objects}/{quoted(source)}/moveTo/o/{quoted(dest)}{self._move_query}"
        if generation is not None:
            url += f"&ifSourceGenerationMatch={generation}"
        if old is not None:
            url += f"&ifGenerationMatch={old}"
        answer = _checked(self._ask("POST", url, source), source, dest)
        decoded(answer, _Placed, f"/{source}")

    def get(self, name: str) -> GcsObject | None:
        """Describe an object; None if there is none."""
        answer = self._ask("GET", f"{self._objects}/{quoted(name)}{self._query(fields=_FIELDS)}", name)
        if answer.status == 404:
            return None
        return decoded(_checked(answer, name), GcsObject, f"/{name}")

    def download(self, name: str) -> tuple[bytes, str]:
        """The content of an object and its generation."""
        url = f"{self._objects}/{quoted(name)}{self._query(alt='media')}"
        answer = _checked(self._ask("GET", url, name, most_bytes=MOST_FILE_BYTES), name)
        generation = answer.headers.get("x-goog-generation")
        if generation is None:
            raise foreign_answer(answer, f"/{name}")
        read_field(whole_number, generation, "x-goog-generation", f"/{name}")
        return answer.body, generation

    def upload(self, name: str, data: bytes, *, generation: str | None = None) -> str:
        """Put an object in place, and return its generation. ``FileExistsError`` unless the object has
        this `generation`; 0 means that there is no object."""
        conditions = {"ifGenerationMatch": generation} if generation is not None else {}
        query = self._query(uploadType="media", name=name, fields="generation", **conditions)
        answer = _checked(
            self._ask("POST", self._uploads + query, name, data=data, headers=_BYTES), name
        )
        return decoded(answer, _Placed, f"/{name}").generation

    def begin_upload(self, name: str) -> str:
        """Begin an upload in parts; return its session, which alone authorizes them."""
        query = self._query(uploadType="resumable", name=name)
        answer = _checked(self._ask("POST", self._uploads + query, name, data=b"{}"), name)
        location = urlsplit(answer.headers.get("location", "")).query
        session = dict(parse_qsl(location)).get("upload_id", "")
        if not session:
            raise bad_field(f"/{name}", "Location", "")
        return session

    def put_part(self, name: str, session: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Send the bytes from `start` on; the object is there after the last ones. A repetition first
        asks how many have arrived, and so does not append them twice."""
        end, part = start + len(data), (session, start)
        total = str(end) if is_last else "*"
        kept: int | None = start
        # Only after a part whose answer was lost: to ask each time would double the requests.
        if part in self._sent:
            kept = self._send(name, session, f"bytes */{total}", b"")
        self._sent.add(part)
        while kept is not None and (kept < end or is_last):
            if not start <= kept <= end:
                raise OSError(errno.EIO, f"the store has {kept} bytes of the first {end}", f"/{name}")
            before, rest = kept, data[kept - start :]
            bounds = f"{kept}-{end - 1}" if rest else "*"
            kept = self._send(name, session, f"bytes {bounds}/{total}", rest)
            # No progress, and no error: without an end this loop would send the same bytes for ever.
            if kept is not None and kept <= before:
                raise StoreUnavailableError(f"/{name}", "the store has not taken a part of the object")
        self._sent.discard(part)

    def _send(self, name: str, session: str, content_range: str, data: bytes) -> int | None:
        """Send bytes of an upload; return how many have arrived, None if the object is complete."""
        query = self._query(uploadType="resumable", name=name, upload_id=session, fields="generation")
        headers = {**_BYTES, "Content-Range": content_range}
        answer = self._ask("PUT", self._uploads + query, name, data=data, headers=headers)
        if answer.status != _MORE:
            decoded(_checked(answer, name), _Placed, f"/{name}")
            return None
        arrived = answer.headers.get("range")
        if arrived is None:
            return 0
        return read_field(whole_number, arrived.removeprefix("bytes=0-"), "Range", f"/{name}") + 1

    def delete(self, name: str, generation: str | None = None) -> bool:
        """Delete an object; False if there is none, ``FileExistsError`` if its `generation` differs."""
        return _was_there(self._ask("DELETE", self._deletion(name, generation), name), name)

    def delete_unless_new(self, name: str, generation: str | None) -> bool:
        """`delete`, but leave an object of another generation, if one is given, and return False."""
        try:
            return self.delete(name, generation)
        except FileExistsError:
            if generation is None:
                raise
            return False

    def delete_all(self, generations: Mapping[str, str | None]) -> bool:
        """`delete_unless_new` for at most 100 objects in one request, if the server has batches; return
        whether any was there. An error of one of them is raised after all were tried."""
        first = next(iter(generations))
        paths = [
            self._deletion(*item).removeprefix(self._credentials.base) for item in generations.items()
        ]
        body = encode_batch("DELETE", paths)
        answer = self._ask("POST", self._batches, first, data=body, headers=BATCH_HEADERS)
        # Noted for all later deletions: the answer of a server does not change.
        if answer.status in _NO_BATCHES:
            self.has_batches = False
            return sum(self.delete_unless_new(*item) for item in generations.items()) > 0
        answers = decode_batch(_checked(answer, first), f"/{first}", len(generations))
        return sum(map(_is_deleted, generations.items(), answers)) > 0

    def pages(
        self,
        prefix: str,
        *,
        delimiter: str = "",
        folders: bool = False,
        limit: int = PAGE_ITEMS,
        after: str | None = None,
    ) -> Iterator[GcsPage]:
        """List the objects whose names begin with `prefix`, a page of `limit` at a time, or those
        `after` another page. With a `delimiter`, names that contain it after the prefix are replaced by
        their part up to it; `folders` adds folders. A page can be empty although another one follows."""
        wanted = {"prefix": prefix, "maxResults": str(limit)}
        # Only what is needed: the full description of an object is many times as long.
        wanted["fields"] = f"nextPageToken,items({_FIELDS})" + (",prefixes" if delimiter else "")
        if delimiter:
            wanted["delimiter"] = delimiter
        if folders:
            wanted["includeFoldersAsPrefixes"] = "true"
        if after is not None:
            wanted["pageToken"] = after
        tokens = PageTokens(f"/{prefix}")
        while True:
            answer = _checked(self._ask("GET", self._objects + self._query(**wanted), prefix), prefix)
            page = decoded(answer, GcsPage, f"/{prefix}")
            require_inside((listed_object.name for listed_object in page.items), prefix, "name")
            require_inside(page.prefixes, prefix, "prefixes")
            yield page
            if not page.next_page_token:
                return
            wanted["pageToken"] = tokens.follow(page.next_page_token)

    def is_hierarchical(self) -> bool:
        """Return whether the bucket has folders; ``OSError`` if that is not readable."""
        answer = self._ask("GET", f"{self._bucket}/storageLayout{self._query()}", "")
        return decoded(_checked(answer, ""), _Layout, "/").hierarchical_namespace.enabled

    def settings(self) -> GcsSettings:
        """Return the settings that cost money; ``PermissionError`` if they are not readable."""
        query = self._query(fields="softDeletePolicy,versioning")
        return decoded(_checked(self._ask("GET", self._bucket + query, ""), ""), GcsSettings, "/")

    def has_folder(self, name: str) -> bool:
        return _was_there(self._ask("GET", self._folder(name), name), name)

    def create_folder(self, name: str) -> None:
        """Make a folder and those above it; ``FileExistsError`` if it is there."""
        query = self._query(recursive="true")
        data = msgspec.json.encode({"name": name})
        _checked(self._ask("POST", f"{self._bucket}/folders{query}", name, data=data), name)

    def delete_folder(self, name: str) -> bool:
        """Delete an empty folder; False if there is none. ``FileExistsError`` if it is not empty."""
        return _was_there(self._ask("DELETE", self._folder(name), name), name)

    def delete_empty_folder(self, name: str) -> bool:
        """`delete_folder`, but leave a folder that is not empty, and return False."""
        with suppress(FileExistsError):
            return self.delete_folder(name)
        return False

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Return the names of all folders that begin with `prefix`, however deep."""
        wanted, tokens = {"prefix": prefix}, PageTokens(f"/{prefix}")
        while True:
            answer = self._ask("GET", f"{self._bucket}/folders{self._query(**wanted)}", prefix)
            page = decoded(_checked(answer, prefix), _Folders, f"/{prefix}")
            require_inside((folder.name for folder in page.items), prefix, "name")
            yield from (folder.name for folder in page.items)
            if not page.next_page_token:
                return
            wanted["pageToken"] = tokens.follow(page.next_page_token)

    def _deletion(self, name: str, generation: str | None) -> str:
        conditions = {"ifGenerationMatch": generation} if generation else {}
        return f"{self._objects}/{quoted(name)}{self._query(**conditions)}"

    def _folder(self, name: str) -> str:
        return f"{self._bucket}/folders/{quoted(name)}{self._query()}"

    def _query(self, **parameters: str) -> str:
        wanted = {**parameters, **self._payer}
        return f"?{urlencode(wanted, quote_via=quote, safe='')}" if wanted else ""

    def _ask(
        self,
        method: str,
        url: str,
        name: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Make a request; if its token is refused, once again with a new one."""
        path = f"/{name}"

        def send(signed: Mapping[str, str]) -> HttpAnswer:
            sent = {**signed, **(headers or {})}
            return self._client.request(
                method, url, path=path, headers=sent, data=data, most_bytes=most_bytes
            )

        signed = self._credentials.headers(path)
        answer, refused = send(signed), self._credentials.shown
        # Once: a token can be revoked before it expires, but a second refusal is about the credentials.
        if answer.status == 401 and (renewed := self._credentials.renewed(signed, path)):
            answer, refused = send(renewed), f"{refused}, also a new one"
        if answer.status == 401:
            text = f"Google refuses {refused}: {_said(answer)}"
            raise CredentialsRefusedError(errno.EACCES, text, path)
        _raise_if_throttled(answer, path)
        return answer


def _is_deleted(named: tuple[str, str | None], answer: HttpAnswer) -> bool:
    """Return or raise what `delete_unless_new` does for this answer."""
    name, generation = named
    _raise_if_throttled(answer, f"/{name}")
    raise_if_unanswered(f"/{name}", "DELETE", answer.status, answer.headers)
    if answer.status == 404 or (generation is not None and answer.status in _ANOTHER):
        return False
    return bool(_checked(answer, name))


def _raise_if_throttled(answer: HttpAnswer, path: str) -> None:
    """Raise `ThrottledError` for throttling that only the text of an answer shows."""
    # "rateLimitExceeded" or "userRateLimitExceeded", with the status of a missing right.
    if answer.status == 403 and b"ateLimitExceeded" in answer.body:
        raise ThrottledError(path)


@lru_cache(maxsize=8192)
def _quoted_directory(directory: str) -> str:
    return quote(directory, safe="")


def quoted(name: str) -> str:
    """Quote a name as one element of a URL's path."""
    directory, slash, last = name.rpartition("/")
    if not _PLAIN.fullmatch(last):
        last = quote(last, safe="")
    return _quoted_directory(directory + slash) + last


def _checked(answer: HttpAnswer, name: str, dest: str | None = None) -> HttpAnswer:
    """Return a successful answer; raise an error with the bucket's message for any other."""
    if 200 <= answer.status < 300:
        return answer
    other_path = None if dest is None else f"/{dest}"
    raise OSError(_NUMBERS.get(answer.status, errno.EIO), _said(answer), f"/{name}", None, other_path)


def _was_there(answer: HttpAnswer, name: str) -> bool:
    return answer.status != 404 and bool(_checked(answer, name))


def _said(answer: HttpAnswer) -> str:
    """Return the message of a refusal."""
    try:
        message = msgspec.json.decode(answer.body, type=_Failure).error.message
    except msgspec.MsgspecError:
        message = ""
    return f"{message or 'the store refused the request'} (HTTP {answer.status})"
