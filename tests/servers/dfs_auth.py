"""Who may ask the in-test server: signatures and tokens are verified, as the service does.

Written from the service's reference and not from our client; the vendor's clients pass it too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.servers.dfs_tree import DfsError

SAS_FIELDS = ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses")


@dataclass
class Account:
    """An account with one key; `tokens` are the valid bearer tokens and when they expire."""

    name: str
    key: str
    tokens: dict[str, float] = field(default_factory=dict)

    def check(
        self, method: str, path: str, query: list[tuple[str, str]], headers: Mapping[str, str]
    ) -> None:
        """Refuse a request that is not authorized; `query` holds decoded pairs."""
        scheme, _, value = headers.get("Authorization", "").partition(" ")
        match scheme:
            case "SharedKey":
                expected = f"{self.name}:{self._sign(self._text(method, path, query, headers))}"
                if not hmac.compare_digest(value, expected):
                    raise DfsError(403, "AuthenticationFailed")
            case "Bearer":
                if not self.is_token(value):
                    raise DfsError(401, "InvalidAuthenticationInfo")
            case _:
                self.check_sas(dict(query))

    def is_token(self, text: str) -> bool:
        return self.tokens.get(text, 0.0) >= time.time()

    def check_sas(self, query: Mapping[str, str]) -> None:
        """Refuse a shared access signature of the account that is missing, wrong or over."""
        if "sig" not in query:
            raise DfsError(401, "NoAuthenticationInformation")
        fields = [query.get(name, "") for name in SAS_FIELDS]
        if not hmac.compare_digest(query["sig"], self._sign("\n".join([self.name, *fields, ""]))):
            raise DfsError(403, "AuthenticationFailed")
        if query["se"] < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()):
            raise DfsError(403, "AuthenticationFailed")

    def _sign(self, text: str) -> str:
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        return base64.b64encode(digest).decode()

    def _text(
        self, method: str, path: str, query: list[tuple[str, str]], headers: Mapping[str, str]
    ) -> str:
        """What a SharedKey signature of the blob service signs."""
        length = headers.get("Content-Length", "")
        standard = [
            headers.get("Content-Encoding", ""),
            headers.get("Content-Language", ""),
            "" if length == "0" else length,
            headers.get("Content-MD5", ""),
            headers.get("Content-Type", ""),
            headers.get("Date", ""),
            headers.get("If-Modified-Since", ""),
            headers.get("If-Match", ""),
            headers.get("If-None-Match", ""),
            headers.get("If-Unmodified-Since", ""),
            headers.get("Range", ""),
        ]
        own = sorted((name.lower(), value) for name, value in headers.items())
        own_lines = [f"{name}:{value.strip()}" for name, value in own if name.startswith("x-ms-")]
        values: dict[str, list[str]] = {}
        for name, value in query:
            values.setdefault(name.lower(), []).append(value)
        resource = [f"{name}:{','.join(sorted(values[name]))}" for name in sorted(values)]
        return "\n".join([method, *standard, *own_lines, f"/{self.name}{path}", *resource])


def split_source(source: str) -> tuple[str, str, dict[str, str]]:
    """The container, the path and the query of an ``x-ms-rename-source``."""
    path, _, query = source.partition("?")
    container, _, name = unquote(path).lstrip("/").partition("/")
    return container, name, dict(decoded_query(query))


def decoded_query(query: str) -> list[tuple[str, str]]:
    """The pairs of a query; a plus sign is one, as in a signature."""
    parts = (part.partition("=") for part in query.split("&") if part)
    return [(unquote(name), unquote(value)) for name, _, value in parts]
