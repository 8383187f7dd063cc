"""A server that answers every request alike, as fast as it can: what is measured then is the client.

Run as a process of its own: ``python canned_server.py`` prints its port. It reads requests no further
than it must, so it takes a few tens of microseconds a request.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LENGTH = b"content-length:"


class Canned(asyncio.Protocol):
    """One connection: an answer, after `seconds`, for each request that has arrived."""

    def __init__(self, answer: bytes, seconds: float) -> None:
        self._answer = answer
        self._seconds = seconds
        self._arrived = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        while (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            end += 4 + _body_length(self._arrived[:end])
            if len(self._arrived) < end:
                return
            self._arrived = self._arrived[end:]
            if self._seconds:
                asyncio.get_running_loop().call_later(self._seconds, self._write)
            else:
                self._write()

    def _write(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._answer)


def _body_length(head: bytes) -> int:
    start = head.lower().find(_LENGTH)
    if start < 0:
        return 0
    return int(head[start + len(_LENGTH) :].partition(b"\r\n")[0])


def answer(status: str, body: bytes, headers: str = "") -> bytes:
    """An HTTP/1.1 answer; `headers` end with a line break each."""
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def canned_server(status: str, body: str, headers: str = "", *, seconds: float = 0.0) -> Iterator[str]:
    """Start one; its URL."""
    command = [sys.executable, __file__, status, body, headers, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


async def serve(canned: bytes, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Canned(canned, seconds), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("status", "body", "headers"):
        parser.add_argument(name)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    asyncio.run(serve(answer(given.status, given.body.encode(), given.headers), given.seconds))
