"""What an HTTP answer shows, if it is an answer of the store at all.

A captive portal, a proxy or a load balancer can answer in place of the store, also with status 200. Such
an answer does not show what was done, so it counts as no answer. What a server of the store's API
answers wrongly stays wrong: the error names the field, and no request is repeated.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

import msgspec

from ray_committer.errors import StoreUnavailableError, ThrottledError

MAX_RETRY_AFTER_SECONDS = 60.0
"""A server, or a wrong clock, may ask for more; then the request is repeated after this time."""

_THROTTLED = (429, 503)
_UNANSWERED = (408, 500, 502, 504)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class HttpAnswer(NamedTuple):
    """A response: status code, headers by name in lower case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CredentialsRefusedError(OSError):
    """The store does not accept the credentials: not a lack of permission for one path."""


class StoreUnusableError(OSError):
    """The store cannot be used, or not be reached in this way, and repeating the request cannot help."""


_LASTING = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted: name one in REQUESTS_CA_BUNDLE",
    "407 Proxy": "the proxy wants a user and a password: give them in https_proxy",
}
"""What shows in the error of another client that a server will never be reached, and what to do."""


def refuse_lasting(error: BaseException, path: str) -> None:
    """`StoreUnusableError` if a client did not reach a server that issues tokens, and never will."""
    cause: BaseException | None = error
    while cause is not None:
        for text, why in _LASTING.items():
            if text in str(cause):
                raise StoreUnusableError(
                    errno.EACCES, f"a server that issues tokens cannot be reached: {why}", path
                ) from None
        cause = cause.__cause__ or cause.__context__


def decoded(answer: HttpAnswer, kind: type[T], path: str, *, strict: bool = True) -> T:
    """Return the JSON of a successful answer; `StoreUnavailableError` if it is no JSON object,
    `StoreUnusableError` if that is not a `kind`."""
    try:
        return msgspec.json.decode(answer.body, type=kind, strict=strict)
    except msgspec.ValidationError as e:
        if answer.body.lstrip().startswith(b"{"):
            raise _misread(path, f"of an answer is missing or malformed: {e}") from None
        raise foreign_answer(answer, path) from e
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise foreign_answer(answer, path) from e


def read_field(parse: Callable[[str], T], text: str, field: str, path: str) -> T:
    """Return what a field of an answer says; `StoreUnusableError` names a field that is malformed."""
    try:
        return parse(text)
    except (ValueError, TypeError, OverflowError, OSError):
        raise bad_field(path, field, text) from None


def bad_field(path: str, field: str, text: str) -> StoreUnusableError:
    """Make the error for an answer with a field that cannot be what the store documents."""
    return _misread(path, f"{field} of an answer is {text[:80]!r}" if text else f"{field} is missing")


def _misread(path: str, what: str) -> StoreUnusableError:
    advice = "check which server answers there, and whether it has the store's API"
    return StoreUnusableError(errno.EPROTO, f"{what}: {advice}", path)


def whole_number(text: str) -> int:
    """Return a number of digits alone; ``ValueError`` for any other text."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def require_inside(names: Iterable[str], prefix: str, field: str) -> None:
    """`StoreUnusableError` if a listing names what it was not asked for: that could be deleted."""
    for name in names:
        if not name.startswith(prefix):
            raise bad_field(f"/{prefix}", field, name)


class PageTokens:
    """The tokens of a listing's pages: one that comes again would be followed for ever."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: set[Hashable] = set()

    def follow(self, token: K) -> K:
        """Return a token that was not followed before; `StoreUnusableError` for one that was."""
        if token in self._seen:
            text = "a listing begins again after a page, so what it lacks is not known: check the server"
            raise StoreUnusableError(errno.EPROTO, text, self._path)
        self._seen.add(token)
        return token


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
    headers: dict[str, str] = {}
    is_head = False
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if name.startswith("HTTP/"):
            headers, is_head = {}, True
        elif is_head and colon:
            headers[name.lower()] = value.strip()
        else:
            is_head = False
    return headers


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
