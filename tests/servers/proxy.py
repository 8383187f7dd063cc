"""An HTTP/1.1 proxy in front of a test server that delays, throttles, and loses requests or answers.

Real servers do not fail when a test wants them to. This one knows nothing of what it carries; an
`Answerer` may add what the server behind lacks. It runs on a thread of its own in the test's process, so
a test sets its faults as it goes, while other processes (Ray's workers) reach it by its address.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

DEADLINE_SECONDS = 60.0

_OF_ONE_CONNECTION = ("Connection", "Keep-Alive", "Transfer-Encoding", "TE", "Upgrade", "Content-Length")
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was sent: `path` is quoted and has the query."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Send = Callable[[Request], Awaitable[Answer]]
Answerer = Callable[[Request, Send], Awaitable[Answer]]
"""Answers a request, with the server behind at hand."""


class Harm(StrEnum):
    """What happens to a request."""

    REFUSE = "an error is answered, nothing is done"
    CUT = "the connection is closed, nothing is done"
    LOSE = "it is done, then the connection is closed"
    FAIL = "it is done, and an error is answered"
    DELAY = "it waits"


@dataclass(slots=True)
class Fault:
    """What goes wrong with some requests: `times` at most, each with `probability`."""

    harm: Harm
    matches: Callable[[Request], bool] = lambda _: True
    probability: float = 1.0
    times: int | None = None
    status: int = 500
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def answer(self) -> Answer:
        return Answer(self.status, self.headers, self.body)


@dataclass(slots=True)
class Throttle:
    """A token bucket: what exceeds `requests_per_second` is refused with `status`."""

    requests_per_second: float
    status: int = 429
    retry_after: str | None = "1"
    burst: float = 10.0
    _tokens: float = 0.0
    _filled: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        now = time.monotonic()
        self._tokens += (now - self._filled) * self.requests_per_second
        self._tokens, self._filled = min(self.burst, self._tokens), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Proxy:
    """Forwards to `upstream` (``http://host:port``) from `url`, between `start` and `stop`.

    Tests set `faults`, `throttle` and `delay_seconds`, and read `requests` (what arrived, in order) and
    `counts` (what became of it: "served", "throttled", a `Harm`).
    """

    def __init__(self, upstream: str, answerer: Answerer | None = None, *, seed: int = 7) -> None:
        self.upstream = upstream.rstrip("/")
        self.answerer = answerer
        self.faults: list[Fault] = []
        self.throttle: Throttle | None = None
        self.delay_seconds = 0.0
        self.requests: list[Request] = []
        self.counts: Counter[str] = Counter()
        self.url = ""
        self._random = Random(seed)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> Proxy:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy did not start within 10 s")
        return self

    def stop(self) -> None:
        """Close all connections; idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)

    def reset(self) -> None:
        """Behave, and forget what was."""
        self.faults, self.throttle, self.delay_seconds = [], None, 0.0
        self.requests, self.counts = [], Counter()

    @contextmanager
    def faulty(self, *faults: Fault) -> Iterator[None]:
        """Have these faults within the block."""
        before, self.faults = self.faults, list(faults)
        try:
            yield
        finally:
            self.faults = before

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._session:
            server = web.Server(self._handle, access_log=None)
            runner = web.ServerRunner(server, shutdown_timeout=1.0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._ended.wait()
            await runner.cleanup()

    async def _handle(self, arrived: web.BaseRequest) -> web.StreamResponse:
        headers = _forwarded(arrived.headers)
        request = Request(arrived.method, arrived.raw_path, headers, await arrived.content.read())
        self.requests.append(request)
        answer = await self._answer(request)
        if answer is None:
            if arrived.transport is not None:
                arrived.transport.abort()
            return web.Response()
        headers = _forwarded(answer.headers)
        if request.method == "HEAD" and "Content-Length" in answer.headers:
            headers["Content-Length"] = answer.headers["Content-Length"]
        return web.Response(status=answer.status, headers=headers, body=answer.body)

    async def _answer(self, request: Request) -> Answer | None:
        """What to answer; None to close the connection without."""
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        throttle = self.throttle
        if throttle is not None and not throttle.take():
            self.counts["throttled"] += 1
            wait = {} if throttle.retry_after is None else {"Retry-After": throttle.retry_after}
            return Answer(throttle.status, wait)
        fault = self._next_fault(request)
        if fault is not None:
            self.counts[fault.harm] += 1
            if fault.harm is Harm.DELAY:
                await asyncio.sleep(fault.seconds)
            if fault.harm in (Harm.REFUSE, Harm.CUT):
                return fault.answer() if fault.harm is Harm.REFUSE else None
        answer = await self._serve(request)
        if fault is not None and fault.harm in (Harm.LOSE, Harm.FAIL):
            return fault.answer() if fault.harm is Harm.FAIL else None
        self.counts["served"] += 1
        return answer

    def _next_fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.times != 0 and fault.matches(request) and self._random.random() < fault.probability:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    async def _serve(self, request: Request) -> Answer:
        try:
            if self.answerer is not None:
                return await self.answerer(request, self._send)
            return await self._send(request)
        except aiohttp.ClientError:
            return Answer(502)

    async def _send(self, request: Request) -> Answer:
        async with self._session.request(
            request.method,
            URL(self.upstream + request.path, encoded=True),
            headers=request.headers,
            data=request.body or None,
            allow_redirects=False,
            skip_auto_headers=_NOT_ADDED,
        ) as response:
            return Answer(response.status, response.headers, await response.read())


def _forwarded(headers: Mapping[str, Any]) -> CIMultiDict[str]:
    """Headers without those that belong to one connection."""
    kept = CIMultiDict(headers)
    for name in _OF_ONE_CONNECTION:
        kept.popall(name, None)
    return kept
