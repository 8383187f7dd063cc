"""Addresses of servers, and URLs as they are shown to people: without what they keep secret.

A URL can have a password, and its query a signature or a token. A malformed one has them in other
places, so the address of a server that cannot be used is never shown at all.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from ray_committer.errors import SettingsError

_PASSWORD = re.compile(
    r"((?:\b[A-Za-z][A-Za-z0-9+.\-]*:/*|//|(?:^|(?<=[\s'\"=,(]))(?![./]))[^/:@\s]+|//):"
    r"(?!:|//|\d+(?:/|$))\S*@"
)
"""A user, and what follows up to the last ``@``: a password can itself have a slash, or that sign."""
_SECRET = re.compile(
    r"((?:^|[?&;\s])[\w.-]*(?:sig|signature|token|passw(?:or)?d|pwd|secret|credential|delegation|"
    r"account_?key|access_?key(?:_?id)?)=)[^&;\s'\"]+",
    re.IGNORECASE,
)
"""A part of a query that authorizes, such as a shared access signature of Azure."""
_PLAIN = re.compile(r"[!-~]+")
LOOKS_LIKE_PASSWORD = re.compile(r"\s*(?:(?![./])[^:@\s]+|//+[^/:@\s]+):[^@\s]*@")
"""What a path begins with if it is a misspelt URL with a password, such as one without its scheme."""


def without_password(url: str) -> str:
    """Return a URL as a user gave it, or a text with it, without its passwords and signatures."""
    return _SECRET.sub(r"\1...", _PASSWORD.sub(r"\1@", url))


def server_address(
    shown: str, named: str, address: str, *, path: bool = False, user: bool = False
) -> SplitResult:
    """Split the URL of a server that an option or a variable, `named`, gives for the store `shown`.
    `SettingsError` without that URL if it is none, or has a `path` or `user` that is not allowed."""
    try:
        url = urlsplit(address)
        is_whole = bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is not a number, or a bracket
        url, is_whole = SplitResult("", "", "", "", ""), False
    has_more = url.query or url.fragment or (url.path.strip("/") and not path)
    has_user = "@" in url.netloc and not user
    is_plain = _PLAIN.fullmatch(address) is not None and "@" not in url.path
    if url.scheme not in ("http", "https") or not is_whole or has_more or has_user or not is_plain:
        raise SettingsError(
            f"{shown}: {named} is not an address of a server",
            "give one like https://host:port, and credentials as storage options",
        )
    return url
