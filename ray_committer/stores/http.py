"""Lean HTTP for stores whose own client costs more than the request: libcurl, one connection per thread.

Vendors' clients retry by themselves, wait without end, or copy when a rename fails. Here each request is
made once, has a deadline, and reports what happened. `GuardedStore` is the retry layer. An event loop
shared by the threads was measured to cost 2.5 times the CPU: a rename would cross threads twice.
"""

from __future__ import annotations

import errno
import os
import re
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
    StoreUnusableError,
    foreign_answer,
    headers_of,
    is_page,
    raise_if_unanswered,
)
from ray_committer.stores.deadline import DEADLINE_SECONDS
from ray_committer.version import __version__

MOST_BYTES = 64 << 20
"""The longest answer that is read, unless it is a file or a listing without pages. The longest page of a
store, 5,000 names of 1,024 characters, has a tenth of it."""

_WITH_BODY = ("POST", "PUT", "PATCH")
_NOT_ADDED = ("Content-Type:", "Expect:")
"""Headers that libcurl would add by itself: only the signed headers must be sent."""
_PROXY_REFUSES = 407
_PROXY_PASSES = ("408", "425", "429")
"""What a proxy answers to CONNECT and may not answer to the next request."""
BUNDLE = "REQUESTS_CA_BUNDLE"
"""Names trusted certificates, also for the clients of Google, Azure and Amazon, which fetch tokens."""

_MALFORMED = {
    pycurl.E_URL_MALFORMAT: "the address of the store, or of a proxy, is malformed",
    pycurl.E_UNSUPPORTED_PROTOCOL: "the address of the store, or of a proxy, is not an HTTP address",
}
_UNTRUSTED = (
    pycurl.E_PEER_FAILED_VERIFICATION,
    pycurl.E_SSL_CACERT_BADFILE,
    pycurl.E_SSL_CERTPROBLEM,
    pycurl.E_SSL_ISSUER_ERROR,
    pycurl.E_SSL_CIPHER,
)
_NO_TLS = re.compile(
    r"wrong version number|packet length too long|record layer failure|alert|unsupported"
)
"""What OpenSSL says of a server that never speaks TLS as this client does."""
_TUNNEL = re.compile(r"CONNECT.*\b([45]\d\d)\b|\b([45]\d\d) from proxy")


class HttpClient:
    """Makes requests for any number of threads, and keeps as many connections as were needed at once.

    A forked child has its own connections: on a shared one, answers would be swapped. Proxies come from
    the environment (``https_proxy``, ``no_proxy``), trusted certificates from the file or directory
    `trusted`, else from `BUNDLE`, else from the system. Until a server has answered a
    request, each has at most `first_seconds`.
    """

    def __init__(
        self,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        first_seconds: float | None = None,
        trusted: str | None = None,
    ) -> None:
        self._trusted = trusted or os.environ.get(BUNDLE)
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
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Make one request to `url`, which is already quoted; errors name `path`.

        Returns any answer that shows what was done, whatever its status; a redirection is also returned,
        and not followed. `ThrottledError` for 429 and 503; `StoreUnavailableError` for other answers of
        a server in trouble, for a web page, and for no answer. `StoreUnusableError` if the next request
        would fail alike: a certificate, a proxy that wants a password, more than `most_bytes`.
        """
        # A fork shares its parent's sockets: to close them would send TLS' farewell on them.
        if self._process != os.getpid():
            self._of_parent, self._idle, self._process = self._idle, [], os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self._trusted)
        seconds = self._seconds
        try:
            answer = connection.request(method, url, headers, data, seconds, most_bytes)
        except pycurl.error as e:
            if connection.is_too_long:
                raise _too_long(path, method, url, most_bytes) from None
            raise self._error(e, path, method, url, seconds) from None
        finally:
            self._idle.append(connection)
        # Any answer will do: the server is there.
        self._seconds = self._deadline_seconds
        if answer.status == _PROXY_REFUSES:
            raise _refused_by_proxy(path, method, url, answer.status)
        if answer.status >= 400:
            raise_if_unanswered(path, shown_request(method, url), answer.status, answer.headers)
        if is_page(answer):
            raise foreign_answer(answer, path)
        return answer

    def close(self) -> None:
        """Close the connections; idempotent."""
        while self._idle:
            self._idle.pop().close()

    def _error(self, error: pycurl.error, path: str, method: str, url: str, seconds: float) -> OSError:
        number, text = error.args
        what = shown_request(method, url)
        if number in _MALFORMED:
            return StoreUnusableError(errno.EINVAL, f"{method}: {_MALFORMED[number]}", path)
        if number in _UNTRUSTED:
            reason = f"{what}: its certificate is not trusted ({text})"
            by = self._trusted or "the certificates of this system"
            advice = f"add the certificate of its authority to {by}, or name a file that has it"
            return StoreUnusableError(errno.EACCES, f"{reason}: {advice}", path)
        if number == pycurl.E_SSL_CONNECT_ERROR and _NO_TLS.search(text):
            advice = "check whether the address begins with http:// or https:// as the server expects"
            return StoreUnusableError(errno.EPROTO, f"{what}: no TLS there ({text}): {advice}", path)
        if (refused := _TUNNEL.search(text)) is not None:
            status = refused[1] or refused[2]
            if status.startswith("4") and status not in _PROXY_PASSES:
                return _refused_by_proxy(path, method, url, status)
            text = f"the proxy from the environment cannot connect to it (HTTP {status})"
        elif number == pycurl.E_OPERATION_TIMEDOUT:
            text = f"no answer within {seconds:g} s"
        elif number == pycurl.E_ABORTED_BY_CALLBACK:
            text = "the connection was closed without an answer"
        elif "proxy" in text.lower():  # the text may contain its password
            text = f"the proxy from the environment cannot be used (curl error {number})"
        return StoreUnavailableError(path, f"{what}: {text}")


def _too_long(path: str, method: str, url: str, most_bytes: int) -> StoreUnusableError:
    text = f"{shown_request(method, url)}: the answer has more than {most_bytes} bytes and was not read"
    advice = (
        "check whether another server, or a file that is no job's, answers in place of what was asked"
    )
    return StoreUnusableError(errno.EFBIG, f"{text}: {advice}", path)


def _refused_by_proxy(path: str, method: str, url: str, status: int | str) -> StoreUnusableError:
    text = f"{shown_request(method, url)}: the proxy from the environment refuses it (HTTP {status})"
    if str(status) == str(_PROXY_REFUSES):
        advice = "give its user and password in https_proxy, or name the store in no_proxy"
    else:
        advice = "let the proxy connect to the store, or name the store in no_proxy"
    return StoreUnusableError(errno.EACCES, f"{text}: {advice}", path)


def shown_request(method: str, url: str) -> str:
    """Name a request by its host: the path and the query may contain a secret."""
    return f"{method} at {urlsplit(url).netloc.rpartition('@')[2]}"


class _Connection:
    """One connection, with one request at a time."""

    def __init__(self, trusted: str | None) -> None:
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._sent = False
        self._room = 0
        self.is_too_long = False
        self._curl = curl = pycurl.Curl()
        options: dict[int, Any] = {
            pycurl.NOSIGNAL: 1,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.PATH_AS_IS: 1,  # a name may be ".." after unquoting
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.USERAGENT: f"ray-committer/{__version__}",
            pycurl.HEADERFUNCTION: self._head.append,
            pycurl.WRITEFUNCTION: self._receive,
            pycurl.PREREQFUNCTION: self._may_send,
            pycurl.XFERINFOFUNCTION: _proceed,
            **_trust(trusted),
        }
        for option, value in options.items():
            curl.setopt(option, value)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        seconds: float,
        most_bytes: int,
    ) -> HttpAnswer:
        """Make one request; ``pycurl.error`` if it has no answer within `seconds`, or one of more than
        `most_bytes`: then `is_too_long`."""
        curl = self._curl
        self._room, self.is_too_long = most_bytes, False
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.TIMEOUT_MS, round(seconds * 1000))
        if data is not None or method in _WITH_BODY:
            curl.setopt(pycurl.POSTFIELDS, data or b"")
        else:
            curl.setopt(pycurl.HTTPGET, 1)
        curl.setopt(pycurl.NOBODY, method == "HEAD")
        # After the options above, each of which sets a method of its own.
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

    def _receive(self, data: bytes) -> int | None:
        self._room -= len(data)
        if self._room < 0:
            self.is_too_long = True
            return 0  # ends the request
        self._body.append(data)
        return None

    def _may_send(self, *_: object) -> int:
        """Refuse to send a request again, as libcurl does if a kept connection has been closed."""
        # A rename that was sent may have been done: sent again, it would fail and look like a conflict.
        sent_before, self._sent = self._sent, True
        return int(pycurl.PREREQFUNC_ABORT if sent_before else pycurl.PREREQFUNC_OK)


def _trust(named: str | None) -> dict[int, str]:
    """Return the options for trusted certificates: those in a file or directory, else the system's."""
    if named:
        return {pycurl.CAPATH if os.path.isdir(named) else pycurl.CAINFO: named}
    system = ssl.get_default_verify_paths()
    trusted = {pycurl.CAINFO: system.cafile or certifi.where()}
    return trusted | ({pycurl.CAPATH: system.capath} if system.capath else {})


def _proceed(*_: object) -> int:
    return 0
