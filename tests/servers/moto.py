"""An S3 server of this machine: moto's, as a process of its own, which answers one request at a time.

moto checks a condition, such as ``If-None-Match``, and then writes, without a lock: of two writes at
once both can succeed, which S3 rules out.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

START_SECONDS = 120.0
_ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"Running on (http://[\d.]+:\d+)")


class MotoServer:
    """Listens on a free port from `start` to `stop`; whatever it was asked for is in its log."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "moto.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it and wait until it listens; an error that holds its log if it does not."""
        command = [sys.executable, "-m", __name__, "--host", "127.0.0.1", "--port", "0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not (found := _ADDRESS.search(self._log.read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"moto did not start:\n{self._log.read_text()}")
            time.sleep(0.05)
        self.url = found[1]

    def stop(self) -> None:
        """End it; idempotent."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def requests(self) -> list[str]:
        """The requests so far, as its log shows them."""
        return [line for line in self._log.read_text().splitlines() if '"' in line and "HTTP/1" in line]


class _OneAtATime:
    """An application that works on a request when it has all of it and has answered those before."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"]
        if length := environ.get("CONTENT_LENGTH"):
            environ["wsgi.input"] = io.BytesIO(body.read(int(length)))
        elif environ.get("wsgi.input_terminated"):
            environ["wsgi.input"] = io.BytesIO(body.read())
        with self._lock:
            return list(self._application(environ, start_response))


def main() -> None:
    """Run moto's server, with the arguments that it takes."""
    from moto import server

    run = server.run_simple

    def run_one_at_a_time(host: str, port: int, application: WSGIApplication, **options: Any) -> None:
        run(host, port, _OneAtATime(application), **options)

    vars(server)["run_simple"] = run_one_at_a_time
    server.main()


if __name__ == "__main__":
    main()
