"""The XML of S3's API: what is sent, and what is read of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ray_committer.stores.answers import HttpAnswer, foreign_answer

PARTS = ("ListPartsResult", "ListPartsResponse")
"""The name of a listing of parts; the second one is moto's."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing; the etag has no quotes, and the moment is as the store writes it."""

    name: str
    size: int
    etag: str
    modified: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `token` is that of the next page, or empty."""

    objects: list[Listed]
    prefixes: list[str]
    token: str


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload in a listing, when it began, and the user who began it, if the store names one."""

    name: str
    id: str
    began: str
    user: str


@dataclass(frozen=True, slots=True)
class UploadPage:
    """One page of uploads; `markers` are the name and the id after which the next page begins."""

    uploads: list[Upload]
    markers: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class PartsPage:
    """One page of an upload's parts: the size and the moment of each; `marker` is the number after which
    the next page begins, or empty."""

    parts: list[tuple[int, str]]
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
    return escape(name, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


def page_of(answer: HttpAnswer, path: str) -> Page:
    """Read a page of objects; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, "ListBucketResult")
    decode = _decoder(root)
    objects = [
        Listed(
            decode(_text(one, "Key")),
            int(_text(one, "Size") or 0),
            _text(one, "ETag").strip('"'),
            _text(one, "LastModified"),
        )
        for one in root.findall("Contents")
    ]
    prefixes = [decode(_text(one, "Prefix")) for one in root.findall("CommonPrefixes")]
    is_cut = _text(root, "IsTruncated") == "true"
    return Page(objects, prefixes, _text(root, "NextContinuationToken") if is_cut else "")


def upload_page_of(answer: HttpAnswer, path: str) -> UploadPage:
    """Read a page of uploads; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, "ListMultipartUploadsResult")
    decode = _decoder(root)
    uploads = [
        Upload(
            decode(_text(one, "Key")),
            _text(one, "UploadId"),
            _text(one, "Initiated"),
            _text(one, "Initiator/DisplayName") or _text(one, "Initiator/ID"),
        )
        for one in root.findall("Upload")
    ]
    is_cut = _text(root, "IsTruncated") == "true"
    markers = decode(_text(root, "NextKeyMarker")), _text(root, "NextUploadIdMarker")
    return UploadPage(uploads, markers if is_cut else None)


def parts_page_of(answer: HttpAnswer, path: str) -> PartsPage:
    """Read a page of the parts of an upload; `StoreUnavailableError` if the answer is not one."""
    root = parsed(answer, path, *PARTS)
    parts = [(int(_text(one, "Size") or 0), _text(one, "LastModified")) for one in root.findall("Part")]
    is_cut = _text(root, "IsTruncated") == "true"
    return PartsPage(parts, _text(root, "NextPartNumberMarker") if is_cut else "")


def abort_rules_of(configuration: ElementTree.Element) -> list[AbortRule]:
    """Read the rules of a bucket that abort uploads."""
    rules = configuration.findall("Rule")
    return [
        AbortRule(
            _text(one, "Filter/And/Prefix") or _text(one, "Filter/Prefix") or _text(one, "Prefix"),
            int(days),
        )
        for one in rules
        if _text(one, "Status") == "Enabled"
        and (days := _text(one, "AbortIncompleteMultipartUpload/DaysAfterInitiation"))
    ]


def upload_id_of(answer: HttpAnswer, path: str) -> str:
    """Read the id of an upload that has begun."""
    found = _text(parsed(answer, path, "InitiateMultipartUploadResult"), "UploadId")
    if not found:
        raise foreign_answer(answer, path)
    return found


def failed_deletions(answer: HttpAnswer, path: str) -> Iterator[tuple[str, Failure]]:
    """Read which objects a deletion of many did not delete, and why."""
    for one in parsed(answer, path, "DeleteResult").findall("Error"):
        yield _text(one, "Key"), Failure(_text(one, "Code"), _text(one, "Message"))


def failure_of(answer: HttpAnswer) -> Failure:
    """Read an error; empty if the answer is none of the store."""
    root = _root(answer)
    if root is None or root.tag != "Error":
        return Failure()
    return Failure(_text(root, "Code"), _text(root, "Message"), _text(root, "Region"))


def is_root(answer: HttpAnswer, *names: str) -> bool:
    """Return whether an answer is XML with a root of one of these names."""
    root = _root(answer)
    return root is not None and root.tag in names


def parsed(answer: HttpAnswer, path: str, *names: str) -> ElementTree.Element:
    """Return the XML of an answer with one of these roots; `StoreUnavailableError` for any other."""
    root = _root(answer)
    if root is None or root.tag not in names:
        raise foreign_answer(answer, path)
    return root


def _root(answer: HttpAnswer) -> ElementTree.Element | None:
    try:
        root = ElementTree.fromstring(answer.body.strip())  # noqa: S314 - expat limits entities
    except ElementTree.ParseError:
        return None
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
    return root


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(name) or ""


def _decoder(root: ElementTree.Element) -> Callable[[str], str]:
    return unquote_plus if _text(root, "EncodingType") == "url" else str
