"""The blob calls that adlfs and Microsoft's client make to the in-test account."""

from __future__ import annotations

import re
from email.utils import formatdate
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tests.servers.dfs_tree import DfsError, Node

if TYPE_CHECKING:
    from tests.servers.dfs import Answer, Call

_XML = {"Content-Type": "application/xml"}
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_BLOCK = re.compile(r"<(?:Latest|Uncommitted|Committed)>([^<]*)<")


def is_blob_call(call: Call) -> bool:
    """Whether a request is one of the blob service alone."""
    marks = "x-ms-blob-type", "x-ms-copy-source"
    return (
        call.query.get("restype") == "container"
        or call.query.get("comp") in ("list", "block", "blocklist")
        or any(mark in call.headers for mark in marks)
    )


def answer(call: Call) -> Answer:
    """Do what is asked for; `DfsError` if it is refused."""
    comp = call.query.get("comp")
    if comp == "list":
        return _list(call)
    if call.query.get("restype") == "container":
        return 200, {"ETag": '"0x1"', "Last-Modified": formatdate(usegmt=True)}, b""
    if comp == "block":
        node = call.tree.find(call.path) or _create(call)
        node.blocks[call.query["blockid"]] = call.body
        return 201, {}, b""
    if comp == "blocklist":
        node = call.tree.find(call.path) or _create(call)
        names = _BLOCK.findall(call.body.decode())
        node.put(b"".join(node.blocks[name] for name in names))
        node.blocks.clear()
    elif "x-ms-copy-source" in call.headers:
        raise DfsError(400, "UnsupportedHeader")
    else:
        if call.headers.get("If-None-Match") == "*" and call.tree.find(call.path):
            raise DfsError(409, "BlobAlreadyExists")
        node = _create(call)
        node.put(call.body)
    modified = formatdate(node.modified, usegmt=True)
    return 201, {"ETag": f'"{node.etag}"', "Last-Modified": modified}, b""


def content(call: Call, node: Node) -> Answer:
    """A file or the range of it that a header names."""
    from tests.servers.dfs import described

    headers = {name: text for name, text in described(node).items() if name != "Content-Length"}
    found = _RANGE.match(call.headers.get("x-ms-range") or call.headers.get("Range") or "")
    if found is None:
        return 200, headers, node.data
    start, end = int(found[1]), int(found[2] or len(node.data))
    if start >= len(node.data):
        raise DfsError(416, "InvalidRange")
    part = node.data[start : end + 1]
    headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(node.data)}"
    return 206, headers, part


def _create(call: Call) -> Node:
    return call.tree.create(call.path, is_directory=False, if_none_match=None)


def _list(call: Call) -> Answer:
    """All blobs with a prefix, directories too, in one page; with a delimiter those of one level."""
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter")
    lines = []
    for path, node in sorted(call.tree.walk(""), key=lambda found: found[0]):
        if not path.startswith(prefix) or (delimiter and delimiter in path[len(prefix) :]):
            continue
        if delimiter and node.is_directory:
            lines.append(f"<BlobPrefix><Name>{escape(path)}/</Name></BlobPrefix>")
        else:
            lines.append(_line(path, node))
    blobs = "".join(lines)
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://a/" '
        f'ContainerName="{call.container}"><Prefix>{escape(prefix)}</Prefix><Blobs>{blobs}</Blobs>'
        f"<NextMarker /></EnumerationResults>"
    )
    return 200, _XML, body.encode()


def _line(path: str, node: Node) -> str:
    date = formatdate(node.modified, usegmt=True)
    folder = "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>" if node.is_directory else ""
    kind = "directory" if node.is_directory else "file"
    return (
        f"<Blob><Name>{escape(path)}</Name><Properties><Creation-Time>{date}</Creation-Time>"
        f"<Last-Modified>{date}</Last-Modified><Etag>{node.etag}</Etag>"
        f"<ResourceType>{kind}</ResourceType><Content-Length>{len(node.data)}</Content-Length>"
        f"<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
        f"</Properties>{folder}</Blob>"
    )
