"""Lean HTTP for stores whose own client costs more than the request: many threads, one event loop.

Vendors' clients retry by themselves, wait without end, or copy when a rename fails; here each request is
made once, has a deadline, and says what happened. `GuardedStore` is the retry layer.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import aiohttp
from fsspec.asyn import get_loop, iothread
from yarl import URL

from ray_committer.errors import StoreUnavailableError, ThrottledError

DEADLINE_SECONDS = 60.0

_THROTTLED = (429, 503)
_UNANSWERED = (408, 500, 502, 504)


class HttpAnswer(NamedTuple):
    """A response: status code, headers by name in any case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Makes requests for any number of threads on the event loop that fsspec has in this process."""

    def __init__(self, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._lock = threading.Lock()
        self._session: aiohttp.ClientSession | None = None

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
        answer = self._send(method, url, path, headers, data)
        raise_if_unanswered(path, method, answer.status, answer.headers)
        return answer

    def close(self) -> None:
        """Close the connections; idempotent."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            asyncio.run_coroutine_threadsafe(session.close(), get_loop()).result()

    def _send(
        self, method: str, url: str, path: str, headers: Mapping[str, str], data: bytes | None
    ) -> HttpAnswer:
        request = self._request(method, URL(url, encoded=True), headers, data)
        try:
            return _Waiting(request).result()
        except TimeoutError as e:
            raise StoreUnavailableError(
                path, f"{method}: no answer within {self._deadline_seconds:g} s"
            ) from e
        except (aiohttp.ClientError, OSError) as e:
            raise StoreUnavailableError(path, f"{method}: {type(e).__name__}") from e

    async def _request(
        self, method: str, url: URL, headers: Mapping[str, str], data: bytes | None
    ) -> HttpAnswer:
        session = self._session or self._open()
        async with session.request(
            method, url, headers=headers, data=data, allow_redirects=False
        ) as response:
            return HttpAnswer(response.status, response.headers, await response.read())

    def _open(self) -> aiohttp.ClientSession:
        """The session, made on the event loop; as many connections as there are threads that ask."""
        with self._lock:
            if self._session is None:
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=0),
                    timeout=aiohttp.ClientTimeout(total=self._deadline_seconds),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                    skip_auto_headers=("Content-Type",),  # what is signed is what is sent
                )
                # aiohttp would make a PUT or DELETE again on a connection that was closed meanwhile
                self._session._retry_connection = False
                weakref.finalize(self, _close, self._session)
            return self._session


class _Waiting:
    """A request on the event loop, and a thread that waits for its answer.

    ``asyncio.run_coroutine_threadsafe`` was measured to cost 0.03 ms more, a sixth of a rename.
    """

    def __init__(self, request: Coroutine[Any, Any, HttpAnswer]) -> None:
        self._request = request
        self._answer: HttpAnswer | None = None
        self._error: BaseException | None = None
        self._ended = threading.Lock()
        self._ended.acquire()
        self._loop = get_loop()
        self._loop.call_soon_threadsafe(self._start)

    def result(self) -> HttpAnswer:
        """Wait for the answer, or raise what came instead."""
        self._ended.acquire()
        if self._answer is not None:
            return self._answer
        raise self._error or AssertionError("a request that ended has an answer or an error")

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            self._answer = await self._request
        except BaseException as e:  # noqa: BLE001 - raised in the thread that waits
            self._error = e
        finally:
            self._ended.release()


def _close(session: aiohttp.ClientSession) -> None:
    """Close the connections of a client that nobody has any more, or at the end of the process."""
    if session.closed or not get_loop().is_running():
        return
    closed = asyncio.run_coroutine_threadsafe(session.close(), get_loop())
    if threading.current_thread() is not iothread[0]:
        with suppress(TimeoutError):
            closed.result(timeout=1.0)


def raise_if_unanswered(path: str, what: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise what `HttpClient.request` raises for a status that does not tell what was done."""
    if status in _THROTTLED:
        raise ThrottledError(path, _retry_after_seconds(headers.get("Retry-After")))
    if status in _UNANSWERED:
        raise StoreUnavailableError(path, f"{what}: the store answered {status}")


def _retry_after_seconds(value: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header, which gives a number or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
