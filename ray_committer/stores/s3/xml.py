"""The XML of S3's API: what is sent, and what is read of answers and shown of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ray_committer.stores.answers import HttpAnswer, bad_field, foreign_answer, read_field, whole_number
from ray_committer.stores.base import FileStatus
from ray_committer.stores.uploads import PendingUpload, UploadPage

PARTS = ("ListPartsResult", "ListPartsResponse")
"""The name of a listing of parts; the second one is moto's."""
_NAME_SPACE = "{http://s3.amazonaws.com/doc/"


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing; the etag has no quotes, and the moment is as the store writes it."""

    name: str
    size: int
    etag: str
    modified: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `token` leads to the next page, or is empty."""

    objects: list[Listed]
    prefixes: list[str]
    token: str


@dataclass(frozen=True, slots=True)
class PartsPage:
    """One page of an upload's parts: the size and the moment of each; `marker` is the number after which
    the next page begins, or empty."""

    parts: list[tuple[int, int | None]]
    marker: str


@dataclass(frozen=True, slots=True)
class AbortRule:
    """A rule that aborts uploads of names that begin with `prefix` after some days."""

    prefix: str
    days: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of the store: its code, its message, and the region of the bucket if it names that."""

    code: str = ""
    message: str = ""
    region: str = ""
    endpoint: str = ""
    """The address at which the bucket is, in an answer that redirects."""


def completion(parts: Sequence[str]) -> bytes:
    """The body of a request that completes an upload of parts with these etags."""
    each = (
        f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{escape(etag)}&quot;</ETag></Part>"
        for number, etag in enumerate(parts, 1)
    )
    return f"<CompleteMultipartUpload>{''.join(each)}</CompleteMultipartUpload>".encode()


def deletion(named: Iterable[tuple[str, str | None]]) -> bytes:
    """The body of a request that deletes objects, each with the etag that it must have, or None."""
    each = (
        f"<Object><Key>{_escaped(name)}</Key>"
        + (f"<ETag>&quot;{escape(etag)}&quot;</ETag>" if etag else "")
        + "</Object>"
        for name, etag in named
    )
    return f"<Delete><Quiet>true</Quiet>{''.join(each)}</Delete>".encode()


def _escaped(name: str) -> str:
    # A parser turns bare line breaks into blanks or "\n": the server would delete another name, or none.
    return escape(name, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


def page_of(answer: HttpAnswer, path: str) -> Page:
    """Read a page of objects; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, "ListBucketResult")
    decode = _decoder(root)
    objects = [
        Listed(
            decode(_needed(element, "Key", path)),
            read_field(whole_number, _text(element, "Size"), "Size", path),
            _needed(element, "ETag", path).strip('"'),
            _text(element, "LastModified"),
        )
        for element in root.findall("Contents")
    ]
    objects = [
        entry for entry in objects if entry.etag or not entry.name.endswith("/")
    ]  # no mark has none
    prefixes = [decode(_needed(element, "Prefix", path)) for element in root.findall("CommonPrefixes")]
    is_cut = _text(root, "IsTruncated") == "true"
    return Page(objects, prefixes, _needed(root, "NextContinuationToken", path) if is_cut else "")


def upload_page_of(answer: HttpAnswer, path: str) -> UploadPage:
    """Read a page of uploads; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, "ListMultipartUploadsResult")
    decode = _decoder(root)
    uploads = []
    for element in root.findall("Upload"):
        name = f"/{decode(_needed(element, 'Key', path))}"
        began = milliseconds(_text(element, "Initiated"), name)
        user = _text(element, "Initiator/DisplayName") or _text(element, "Initiator/ID") or None
        uploads.append(PendingUpload(name, _needed(element, "UploadId", path), began, user))
    is_cut = _text(root, "IsTruncated") == "true"
    # Some servers send markers of a last page, too.
    if not is_cut:
        return UploadPage(uploads, None)
    markers = decode(_needed(root, "NextKeyMarker", path)), _text(root, "NextUploadIdMarker")
    return UploadPage(uploads, markers)


def parts_page_of(answer: HttpAnswer, path: str) -> PartsPage:
    """Read a page of the parts of an upload; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, *PARTS)
    parts = [
        (
            read_field(whole_number, _text(element, "Size"), "Size", path),
            milliseconds(_text(element, "LastModified"), path),
        )
        for element in root.findall("Part")
    ]
    is_cut = _text(root, "IsTruncated") == "true"
    return PartsPage(parts, _needed(root, "NextPartNumberMarker", path) if is_cut else "")


def abort_rules_of(configuration: ElementTree.Element) -> list[AbortRule]:
    """Read the rules of a bucket that abort uploads."""
    rules = configuration.findall("Rule")
    return [
        AbortRule(
            _text(rule, "Filter/And/Prefix") or _text(rule, "Filter/Prefix") or _text(rule, "Prefix"),
            read_field(whole_number, days, "DaysAfterInitiation", "/"),
        )
        for rule in rules
        if _text(rule, "Status") == "Enabled"
        and (days := _text(rule, "AbortIncompleteMultipartUpload/DaysAfterInitiation"))
    ]


def listed(page: Page) -> list[FileStatus]:
    """The directories and files in a page of a listing, without the mark of the listed directory."""
    directories = [FileStatus(f"/{name[:-1]}", is_directory=True) for name in page.prefixes]
    return directories + [status_of(entry) for entry in page.objects if not entry.name.endswith("/")]


def children(prefix: str, objects: Iterable[Listed]) -> dict[str, FileStatus]:
    """What is directly in the directory with this prefix, by path, if these objects are below it."""
    statuses: dict[str, FileStatus] = {}
    for entry in objects:
        name, slash, _ = entry.name[len(prefix) :].partition("/")
        if name or slash:
            path = f"/{prefix}{name}"
            statuses[path] = FileStatus(path, is_directory=True) if slash else status_of(entry)
    return statuses


def status_of(entry: Listed) -> FileStatus:
    """The status of an object in a listing."""
    return FileStatus(
        path=f"/{entry.name}",
        is_directory=False,
        size=entry.size,
        modified_milliseconds=milliseconds(entry.modified, f"/{entry.name}"),
        etag=entry.etag,
        version=entry.etag,
    )


def milliseconds(moment: str, path: str) -> int | None:
    """The second of a moment, as milliseconds: a status has no fractions, so listings must have none."""
    return read_field(_of_moment, moment, "LastModified or Initiated", path) if moment else None


def _of_moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def upload_id_of(answer: HttpAnswer, path: str) -> str:
    """Read the id of an upload that has begun."""
    upload_id = _text(parsed(answer, path, "InitiateMultipartUploadResult"), "UploadId")
    if not upload_id:
        raise foreign_answer(answer, path)
    return upload_id


def failed_deletions(answer: HttpAnswer, path: str) -> Iterator[tuple[str, Failure]]:
    """Read which objects a deletion of many did not delete, and why."""
    for element in parsed(answer, path, "DeleteResult").findall("Error"):
        yield _text(element, "Key"), Failure(_text(element, "Code"), _text(element, "Message"))


def failure_of(answer: HttpAnswer) -> Failure:
    """Read an error; empty if the answer is none of the store."""
    root = _root(answer)
    if root is None or root.tag != "Error":
        return Failure()
    return Failure(
        _text(root, "Code"), _text(root, "Message"), _text(root, "Region"), _text(root, "Endpoint")
    )


def is_root(answer: HttpAnswer, *names: str) -> bool:
    """Return whether an answer is XML with a root of one of these names."""
    root = _root(answer)
    return root is not None and root.tag in names


def is_of_s3(answer: HttpAnswer) -> bool:
    """Return whether an answer is XML in the name space of S3, or an error of its form."""
    root = _parse(answer)
    is_error = root is not None and root.tag == "Error" and root.find("Code") is not None
    return is_error or (root is not None and root.tag.startswith(_NAME_SPACE))


def parsed(answer: HttpAnswer, path: str, *names: str) -> ElementTree.Element:
    """Return the XML of an answer with one of these roots; `StoreUnavailableError` for any other."""
    root = _root(answer)
    if root is None or root.tag not in names:
        raise foreign_answer(answer, path)
    return root


def _parse(answer: HttpAnswer) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(answer.body.strip())  # noqa: S314 - expat limits entities
    except ElementTree.ParseError:
        return None


def _root(answer: HttpAnswer) -> ElementTree.Element | None:
    root = _parse(answer)
    if root is None:
        return None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(name) or ""


def _needed(element: ElementTree.Element, name: str, path: str) -> str:
    """Return the text of an element that every answer has."""
    text = _text(element, name)
    if not text:
        raise bad_field(path, name, "")
    return text


def _decoder(root: ElementTree.Element) -> Callable[[str], str]:
    return unquote_plus if _text(root, "EncodingType") == "url" else str
