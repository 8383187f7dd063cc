"""What an HTTP answer shows, if it is an answer of the store at all.

A captive portal, a proxy or a load balancer can answer in place of the store, also with status 200. Such
an answer does not show what was done, so it counts as no answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

import msgspec

from ray_committer.errors import StoreUnavailableError, ThrottledError

MAX_RETRY_AFTER_SECONDS = 60.0
"""A server, or a wrong clock, may ask for more; then the request is repeated after this time."""

_THROTTLED = (429, 503)
_UNANSWERED = (408, 500, 502, 504)

T = TypeVar("T")


class HttpAnswer(NamedTuple):
    """A response: status code, headers by name in lower case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CredentialsRefusedError(OSError):
    """The store does not accept the credentials: not a lack of permission for one path."""


def decoded(answer: HttpAnswer, kind: type[T], path: str, *, strict: bool = True) -> T:
    """Return the JSON of a successful answer; `StoreUnavailableError` if it is not a `kind`."""
    try:
        return msgspec.json.decode(answer.body, type=kind, strict=strict)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise foreign_answer(answer, path) from e


def foreign_answer(answer: HttpAnswer, path: str) -> StoreUnavailableError:
    """Make the error for an answer that is not the store's."""
    kind = answer.headers.get("content-type", "no content type").partition(";")[0]
    return StoreUnavailableError(
        path,
        f"the answer is not the store's (HTTP {answer.status}, {len(answer.body)} bytes, {kind}): check "
        f"whether a proxy or a login page answers in its place",
    )


def is_page(answer: HttpAnswer) -> bool:
    """Return whether an answer is a web page, which no store returns for a successful request."""
    kind = answer.headers.get("content-type", "")
    return 200 <= answer.status < 300 and bool(answer.body) and kind.startswith("text/html")


def headers_of(lines: list[bytes]) -> dict[str, str]:
    """Return the headers of the last response, without trailers; interim ones may come before it."""
    found: dict[str, str] = {}
    is_head = False
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if name.startswith("HTTP/"):
            found, is_head = {}, True
        elif is_head and colon:
            found[name.lower()] = value.strip()
        else:
            is_head = False
    return found


def raise_if_unanswered(path: str, what: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise what `HttpClient.request` raises for a status that does not show what was done."""
    if status in _THROTTLED:
        raise ThrottledError(path, _retry_after_seconds(headers.get("retry-after")))
    if status in _UNANSWERED:
        raise StoreUnavailableError(path, f"{what}: the store answered {status}")


def _retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header, which holds a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(0.0, seconds), MAX_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else None
