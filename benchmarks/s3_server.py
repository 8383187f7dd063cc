"""The strict S3 of the tests behind a fast HTTP server whose requests take as long as is asked for.

Run as a process of its own: ``python s3_server.py SECONDS JOBS TASKS FILES`` writes so many jobs, which
only have to be committed, without a network, and then prints its port. Each job is at
``s3://bucket/table-N``, and also one that Hadoop's S3A committer would leave there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote_plus

sys.path.insert(0, str(Path(__file__).parents[1]))

from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.answers import HttpAnswer
from ray_committer.testing import write_job
from tests.pendingsets import encode_pendingset, pendingset_path
from tests.servers.fake_s3 import OPTIONS, FakeS3, direct_store

JOB = "11111111-2222-3333-4444-555555555555"
"""The id of each job, as Spark gives one to a write."""


_QUOTED = b"<EncodingType>url</EncodingType>"
"""In a listing whose names are quoted, which the SDK of S3A does not ask for."""


class Arrivals(selectors.SelectSelector):
    """Shows when requests have arrived: before others of the same moment were answered. Unlike epoll, it
    does not round waits to milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout)
        self.moment = time.monotonic()
        return found


class S3Connection(asyncio.Protocol):
    """One connection: an answer, after `seconds`, for each request that has arrived."""

    def __init__(self, fake: FakeS3, seconds: float, arrivals: Arrivals) -> None:
        self._fake, self._seconds, self._arrivals = fake, seconds, arrivals
        self._arrived = b""
        self._told_to_go_on = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        while (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._arrived[:end].decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            length = int(headers.get("content-length", "0"))
            if len(self._arrived) < end + 4 + length:
                if headers.get("expect") and not self._told_to_go_on:
                    self._told_to_go_on = True
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body = self._arrived[end + 4 : end + 4 + length]
            self._arrived, self._told_to_go_on = self._arrived[end + 4 + length :], False
            if headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
                body = unchunked(body)
            method, target, _ = first.split(" ")
            path, _, query = target.partition("?")
            found = self._fake.respond(method, path, query, headers, body)
            if method == "GET" and "encoding-type=" not in query and _QUOTED in found.body:
                plain = unquote_plus(found.body.replace(_QUOTED, b"").decode())
                found = found._replace(body=plain.encode())
            moment = self._arrivals.moment + self._seconds
            asyncio.get_running_loop().call_at(moment, self._write, method, found)

    def _write(self, method: str, found: HttpAnswer) -> None:
        if self._transport.is_closing():
            return
        is_head = method == "HEAD"
        length = found.headers.get("content-length") if is_head else str(len(found.body))
        lines = [
            f"{name}: {value}\r\n" for name, value in found.headers.items() if name != "content-length"
        ]
        head = f"HTTP/1.1 {found.status} Told\r\n{''.join(lines)}Content-Length: {length or 0}\r\n\r\n"
        self._transport.write(head.encode() + (b"" if is_head else found.body))


def unchunked(body: bytes) -> bytes:
    """The content of a body in signed chunks, as the SDK of S3A sends it."""
    found = []
    while body:
        head, _, body = body.partition(b"\r\n")
        length = int(head.partition(b";")[0], 16)
        found.append(body[:length])
        body = body[length + 2 :]
    return b"".join(found)


def written(jobs: int, tasks: int, files: int) -> FakeS3:
    """A server with `jobs` jobs to be committed here, and as many of Hadoop's S3A committer."""
    fake = FakeS3()
    store = direct_store(fake)
    names = {task: {f"part-{task:05d}-{n:05d}": b"x" for n in range(files)} for task in range(tasks)}
    for number in range(jobs):
        write_job(store, new_job_attempt(f"/table-{number}", JOB, 0), names)
        theirs = new_job_attempt(f"/s3a-{number}", JOB, 0)
        write_job(store, theirs, names)
        magic = MagicJob("bucket", theirs.destination, JOB)
        for one in store.list_status(theirs.manifests):
            manifest = decode_manifest(store.read(one.path), one.path)
            data = encode_pendingset(manifest, magic, milliseconds=1)
            store.write(pendingset_path(magic, one.name.removesuffix("-manifest.json")), data)
        store.delete_directory(theirs.temporary)
    return fake


@contextmanager
def s3_server(seconds: float, *, jobs: int, tasks: int, files: int) -> Iterator[dict[str, str]]:
    """Start one; the storage options that lead to it."""
    command = [sys.executable, __file__, *map(str, (seconds, jobs, tasks, files))]
    with started(command) as options:
        yield options


@contextmanager
def started(command: list[str]) -> Iterator[dict[str, str]]:
    """Start a server by a `command` that prints its port; the storage options that lead to it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield {**OPTIONS, "endpoint_url": f"http://127.0.0.1:{int(process.stdout.readline())}"}
    finally:
        process.terminate()
        process.wait()


def run_server(fake: FakeS3, seconds: float) -> None:
    """Print the port of a server, and serve until the process is ended."""
    arrivals = Arrivals()
    gc.freeze()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(arrivals)) as runner:
        runner.run(_serve(fake, seconds, arrivals))


async def _serve(fake: FakeS3, seconds: float, arrivals: Arrivals) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: S3Connection(fake, seconds, arrivals), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    for name in ("jobs", "tasks", "files"):
        parser.add_argument(name, type=int)
    given = parser.parse_args()
    run_server(written(given.jobs, given.tasks, given.files), given.seconds)
