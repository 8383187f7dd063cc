"""Lean HTTP for stores whose own client costs more than the request: libcurl, one connection per thread.

Vendors' clients retry by themselves, wait without end, or copy when a rename fails. Here each request is
made once, has a deadline, and reports what happened. `GuardedStore` is the retry layer. An event loop
shared by the threads was measured to cost 2.5 times the CPU: a rename would cross threads twice.
"""

from __future__ import annotations

import errno
import os
import ssl
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import certifi
import pycurl

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.answers import (
    HttpAnswer,
    foreign_answer,
    headers_of,
    is_page,
    raise_if_unanswered,
)
from ray_committer.stores.deadline import DEADLINE_SECONDS
from ray_committer.version import __version__

_WITH_BODY = ("POST", "PUT", "PATCH")
_NOT_ADDED = ("Content-Type:", "Expect:")
"""Headers that libcurl would add by itself: only the signed headers must be sent."""


_WRONG = {
    pycurl.E_URL_MALFORMAT: "the address of the store, or of a proxy, is malformed",
    pycurl.E_UNSUPPORTED_PROTOCOL: "the address of the store, or of a proxy, is not an HTTP address",
}


class HttpClient:
    """Makes requests for any number of threads, and keeps as many connections as were needed at once.

    A forked child has its own connections: on a shared one, answers would be swapped. Proxies come from
    the environment (``https_proxy``, ``no_proxy``), trusted certificates from the system. Until a server
    has answered a request, each has at most `first_seconds`.
    """

    def __init__(
        self, *, deadline_seconds: float = DEADLINE_SECONDS, first_seconds: float | None = None
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._seconds = deadline_seconds if first_seconds is None else first_seconds
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
        """Make one request to `url`, which is already quoted; errors name `path`.

        Returns any answer that shows what was done, whatever its status; a redirection is also returned,
        and not followed. `ThrottledError` for 429 and 503; `StoreUnavailableError` for other answers of
        a server in trouble, for a web page, and for no answer.
        """
        if self._process != os.getpid():
            self._of_parent, self._idle, self._process = self._idle, [], os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection()
        seconds = self._seconds
        try:
            answer = connection.request(method, url, headers, data, seconds)
        except pycurl.error as e:
            raise _error(e, path, method, url, seconds) from None
        finally:
            self._idle.append(connection)
        self._seconds = self._deadline_seconds
        if answer.status >= 400:
            raise_if_unanswered(path, _shown(method, url), answer.status, answer.headers)
        if is_page(answer):
            raise foreign_answer(answer, path)
        return answer

    def close(self) -> None:
        """Close the connections; idempotent."""
        while self._idle:
            self._idle.pop().close()


def _error(error: pycurl.error, path: str, method: str, url: str, seconds: float) -> OSError:
    number, text = error.args
    if number in _WRONG:
        return OSError(errno.EINVAL, f"{method}: {_WRONG[number]}", path)
    if number == pycurl.E_OPERATION_TIMEDOUT:
        text = f"no answer within {seconds:g} s"
    elif number == pycurl.E_ABORTED_BY_CALLBACK:
        text = "the connection was closed without an answer"
    elif "proxy" in text.lower():  # the text may contain its password
        text = f"the proxy from the environment cannot be used (curl error {number})"
    return StoreUnavailableError(path, f"{_shown(method, url)}: {text}")


def _shown(method: str, url: str) -> str:
    """Name a request by its host: the path and the query may contain a secret."""
    return f"{method} at {urlsplit(url).netloc.rpartition('@')[2]}"


class _Connection:
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._sent = False
        self._curl = curl = pycurl.Curl()
        trusted = ssl.get_default_verify_paths()
        options: dict[int, Any] = {
            pycurl.NOSIGNAL: 1,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.PATH_AS_IS: 1,  # a name may be ".." after unquoting
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
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None, seconds: float
    ) -> HttpAnswer:
        """Make one request; ``pycurl.error`` if it has no answer within `seconds`."""
        curl = self._curl
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.TIMEOUT_MS, round(seconds * 1000))
        if data is not None or method in _WITH_BODY:
            curl.setopt(pycurl.POSTFIELDS, data or b"")
        else:
            curl.setopt(pycurl.HTTPGET, 1)
        curl.setopt(pycurl.NOBODY, method == "HEAD")
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HTTPHEADER, [*_NOT_ADDED, *map(": ".join, headers.items())])
        # Ctrl-C reaches only the main thread, and there only while Python code runs.
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
                curl.setopt(pycurl.POSTFIELDS, b"")  # libcurl keeps a copy of the data

    def close(self) -> None:
        self._curl.close()

    def _may_send(self, *_: object) -> int:
        """Refuse to send a request again, as libcurl does if a kept connection has been closed."""
        sent_before, self._sent = self._sent, True
        return int(pycurl.PREREQFUNC_ABORT if sent_before else pycurl.PREREQFUNC_OK)


def _proceed(*_: object) -> int:
    return 0
