"""Paths as Hadoop writes them into manifests: ``java.net.URI`` quoting, not RFC 3986.

Java keeps most non-ASCII characters unchanged and quotes only characters that its URI syntax forbids.
Both sides read the manifests, so both must quote in the same way. Decoding is strict where a lenient
reader would silently name another file. Source: ``org.apache.hadoop.fs.Path`` and ``java.net.URI``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from ray_committer.errors import PathError

_KEPT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'():@&=+$,;/")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9\-_.!~*'():@&=+$,;/]*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_ESCAPE = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LEGAL_TEXT = re.compile(r"""[^\x00-\x20"<>\\^`{|}\x7f-\x9f#?\[\]\ud800-\udfff]*""")
_DEFAULT_PORTS = {"hdfs": 8020, "http": 80, "https": 443}
_SAME_SCHEME = {"abfss": "abfs"}


@dataclass(frozen=True, slots=True)
class Location:
    """A decoded URI: `path` is the object's name in the store, absolute, without a trailing slash."""

    scheme: str
    authority: str
    path: str


def quote_path(path: str) -> str:
    """Quote a decoded path as ``Path.toUri().toString()`` does; `PathError` if it is not UTF-8."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    try:
        return "".join(map(_quote_character, path))
    except UnicodeEncodeError as e:
        raise PathError(f"{path!r}: is not UTF-8, so no manifest can name it", "rename it") from e


@lru_cache(maxsize=4096)
def _quote_character(character: str) -> str:
    if character in _KEPT:
        return character
    # `java.net.URI` quotes control characters and all kinds of blanks, but no other character beyond
    # ASCII.
    code = ord(character)
    if code <= 0x9F or unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cs"):
        return "".join(f"%{byte:02X}" for byte in character.encode())
    return character


def unquote_path(quoted: str) -> str:
    """Decode a quoted path; `PathError` on a broken escape, an illegal character or bad UTF-8."""
    if _PLAIN_PATH.fullmatch(quoted):
        return quoted
    if not _LEGAL_TEXT.fullmatch(quoted):
        raise PathError(f"{quoted!r}: contains a character that must be quoted in a URI path")
    decoded = _ESCAPE.sub(lambda match: _decode_escape(match.group(), quoted), quoted)
    # Read leniently, a lone "%" would name the same file as "%25", and a rename could hit another file.
    if quoted.count("%") != sum(len(run) // 3 for run in _ESCAPE.findall(quoted)):
        raise PathError(f"{quoted!r}: contains a '%' that is not an escape", "write it as %25")
    return decoded


def _decode_escape(escape: str, quoted: str) -> str:
    try:
        return bytes.fromhex(escape.replace("%", "")).decode("utf-8")
    except UnicodeDecodeError as e:
        raise PathError(f"{quoted!r}: {escape} is not UTF-8") from e


def parse_uri(uri: str) -> Location:
    """Split and decode a manifest's URI; a path without scheme has an empty `scheme`. Equal places get
    equal values: ``file:/a`` and ``file:///a``, a default port and none, ``abfs`` and ``abfss``, double
    slashes and single ones. `PathError` if it is not an absolute path."""
    match = _SCHEME.match(uri)
    scheme = match.group(1).lower() if match else ""
    rest = uri[match.end() :] if match else uri
    authority = ""
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
    if authority and not scheme:
        raise PathError(f"{uri!r}: names a host but no scheme", "write one slash before the path")
    return Location(
        _SAME_SCHEME.get(scheme, scheme),
        _normal_authority(scheme, authority),
        normal_path(unquote_path(rest), uri),
    )


def normal_path(path: str, shown: str | None = None) -> str:
    """Return an absolute `path` with single slashes and no trailing slash; refuse ``.`` and ``..``."""
    shown = path if shown is None else shown
    if not path.startswith("/"):
        raise PathError(f"{shown!r}: is not an absolute path")
    # The cheap tests of the whole text first: this runs once per file.
    if "//" in path or (path.endswith("/") and path != "/"):
        path = "/" + "/".join(part for part in path.split("/") if part)
    if "/." in path and any(part in (".", "..") for part in path.split("/")):
        raise PathError(f"{shown!r}: contains a '.' or '..' element")
    if "\0" in path:
        raise PathError(f"{shown!r}: contains a NUL character")
    return path


def format_uri(location: Location) -> str:
    """Return the URI that Hadoop would write for `location` (``file:/a``, ``gs://bucket/a``)."""
    if not location.scheme:
        return quote_path(location.path)
    authority = f"//{location.authority}" if location.authority else ""
    return f"{location.scheme}:{authority}{quote_path(location.path)}"


def _normal_authority(scheme: str, authority: str) -> str:
    authority = authority.lower() if scheme in ("hdfs", "http", "https") else authority
    if scheme == "file" and authority == "localhost":
        return ""
    port = _DEFAULT_PORTS.get(scheme)
    return authority.removesuffix(f":{port}") if port else authority
