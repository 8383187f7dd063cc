"""Lean HTTP for stores whose own client costs more than the request: libcurl, a connection a thread.

Vendors' clients retry by themselves, wait without end, or copy when a rename fails; here each request is
made once, has a deadline, and says what happened. `GuardedStore` is the retry layer. An event loop
shared by the threads was measured to cost 2.5 times the CPU: a rename would cross threads twice.
"""

from __future__ import annotations

import errno
import math
import os
import ssl
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import certifi
import pycurl

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.version import __version__

DEADLINE_SECONDS = 60.0
MAX_RETRY_AFTER_SECONDS = 60.0
"""A server may ask for more, or a clock that is wrong may; then it is asked again after this."""

_THROTTLED = (429, 503)
_UNANSWERED = (408, 500, 502, 504)
_WITH_BODY = ("POST", "PUT", "PATCH")
_NOT_ADDED = ("Content-Type:", "Expect:")
"""Headers that libcurl adds unless told not to: what is signed is what is sent."""


_WRONG = {
    pycurl.E_URL_MALFORMAT: "the address of the store, or of a proxy, is malformed",
    pycurl.E_UNSUPPORTED_PROTOCOL: "the address of the store, or of a proxy, is not one of HTTP",
}


class HttpAnswer(NamedTuple):
    """A response: status code, headers by name in lower case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Makes requests for any number of threads, and keeps as many connections as were needed at once.

    A forked child has connections of its own: on one that is shared, answers would be swapped. Proxies
    are those of the environment (``https_proxy``, ``no_proxy``), trusted certificates those of the
    system.
    """

    def __init__(self, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._idle: list[_Connection] = []
        self._process = os.getpid()
        self._of_parent: list[_Connection] = []  # never closed: that would end the parent's

    def request(
        self,
        method: str,
        url: str,
        *,
        path: str,
        headers: Mapping[str, str],
        data: bytes | None = None,
    ) -> HttpAnswer:
        """Make one request to `url`, which is quoted already; `path` is what errors name.

        Any answer that tells what was done is returned, whatever its status: a redirection too, which
        is not followed. `ThrottledError` for 429 and 503, `StoreUnavailableError` for other answers of
        a server in trouble, and for none.
        """
        if self._process != os.getpid():
            self._of_parent, self._idle, self._process = self._idle, [], os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self._deadline_seconds)
        try:
            answer = connection.request(method, url, headers, data)
        except pycurl.error as e:
            raise self._error(e, path, method) from None
        finally:
            self._idle.append(connection)
        raise_if_unanswered(path, method, answer.status, answer.headers)
        return answer

    def close(self) -> None:
        """Close the connections; idempotent."""
        while self._idle:
            self._idle.pop().close()

    def _error(self, error: pycurl.error, path: str, method: str) -> OSError:
        number, text = error.args
        if number in _WRONG:
            return OSError(errno.EINVAL, f"{method}: {_WRONG[number]}", path)
        if number == pycurl.E_OPERATION_TIMEDOUT:
            text = f"no answer within {self._deadline_seconds:g} s"
        elif number == pycurl.E_ABORTED_BY_CALLBACK:
            text = "the connection was closed without an answer"
        elif "proxy" in text.lower():  # it may be quoted with its password
            text = f"the proxy of the environment cannot be used (curl error {number})"
        return StoreUnavailableError(path, f"{method}: {text}")


class _Connection:
    """One connection, with one request at a time."""

    def __init__(self, deadline_seconds: float) -> None:
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._sent = False
        self._curl = curl = pycurl.Curl()
        trusted = ssl.get_default_verify_paths()
        options: dict[int, Any] = {
            pycurl.TIMEOUT_MS: round(deadline_seconds * 1000),
            pycurl.NOSIGNAL: 1,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.PATH_AS_IS: 1,  # a name may be ".." once it is unquoted
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.USERAGENT: f"ray-committer/{__version__}",
            pycurl.CAINFO: trusted.cafile or certifi.where(),
            pycurl.HEADERFUNCTION: self._head.append,
            pycurl.WRITEFUNCTION: self._body.append,
            pycurl.PREREQFUNCTION: self._may_send,
            pycurl.XFERINFOFUNCTION: _proceed,
        }
        if trusted.capath:
            options[pycurl.CAPATH] = trusted.capath
        for option, value in options.items():
            curl.setopt(option, value)

    def request(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None
    ) -> HttpAnswer:
        """Make one request; ``pycurl.error`` if it has no answer."""
        curl = self._curl
        curl.setopt(pycurl.URL, url)
        if data is not None or method in _WITH_BODY:
            curl.setopt(pycurl.POSTFIELDS, data or b"")
        else:
            curl.setopt(pycurl.HTTPGET, 1)
        curl.setopt(pycurl.NOBODY, method == "HEAD")
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HTTPHEADER, [*_NOT_ADDED, *map(": ".join, headers.items())])
        # Ctrl-C reaches the main thread alone, and there only while Python code runs.
        curl.setopt(pycurl.NOPROGRESS, threading.current_thread() is not threading.main_thread())
        self._sent = False
        try:
            curl.perform()
            return HttpAnswer(
                curl.getinfo(pycurl.RESPONSE_CODE), headers_of(self._head), b"".join(self._body)
            )
        finally:
            self._head.clear()
            self._body.clear()
            if data:
                curl.setopt(pycurl.POSTFIELDS, b"")  # of which it keeps a copy

    def close(self) -> None:
        self._curl.close()

    def _may_send(self, *_: object) -> int:
        """Refuse to send a request again, as libcurl does where a connection that was kept is closed."""
        sent_before, self._sent = self._sent, True
        return int(pycurl.PREREQFUNC_ABORT if sent_before else pycurl.PREREQFUNC_OK)


def _proceed(*_: object) -> int:
    return 0


def headers_of(lines: list[bytes]) -> dict[str, str]:
    """The headers of the last response, without trailers: before it, others may have told to go on."""
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
    """Raise what `HttpClient.request` raises for a status that does not tell what was done."""
    if status in _THROTTLED:
        raise ThrottledError(path, _retry_after_seconds(headers.get("retry-after")))
    if status in _UNANSWERED:
        raise StoreUnavailableError(path, f"{what}: the store answered {status}")


def _retry_after_seconds(value: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header, which gives a number or a date."""
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
