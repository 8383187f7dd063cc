"""An S3 server of this machine: moto's, as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

START_SECONDS = 120.0
_ADDRESS = re.compile(r"Running on (http://[\d.]+:\d+)")


class MotoServer:
    """Listens on a free port from `start` to `stop`; whatever it was asked for is in its log."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "moto.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it and wait until it listens; an error that holds its log if it does not."""
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
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
