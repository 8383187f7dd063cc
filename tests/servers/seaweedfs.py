"""SeaweedFS on this machine: an S3 server that works on requests at the same time and obeys conditions.

It keeps objects as files. So a listing shows directories whose objects are gone, and the abort of an
upload that was completed is confirmed. The program comes from PyPI.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.servers.ports import free_ports

START_SECONDS = 120.0
_PROGRAM = Path(sys.executable).with_name("weed")
_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
"""What has the kernel end it when the process that started it is killed."""
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")
_OFF = ("s3.port.iceberg=0", "s3.port.lance=0", "master.telemetry=false", "volume.preStopSeconds=0")


class SeaweedServer:
    """Listens on free ports of 127.0.0.1 from `start` to `stop`; its files are in a new directory."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="seaweedfs-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: list[int] = []
        self.url = ""

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"endpoint_url": self.url, "key": "test", "secret": "test", "region": "us-east-1"}

    def start(self) -> SeaweedServer:
        """Start it and wait until it answers; an error that holds its log if it does not."""
        self._ports = free_ports(2 * len(_PORTS))
        ports = iter(self._ports)
        found = {name: next(ports) for port in _PORTS for name in (port, f"{port}.grpc")}
        command = [
            *_WITH_PARENT,
            str(_PROGRAM),
            "server",
            "-s3",
            f"-dir={self._directory}",
            "-ip=127.0.0.1",
        ]
        command += ["-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=64", "-volume.max=0"]
        command += [f"-{name}={port}" for name, port in found.items()] + [f"-{one}" for one in _OFF]
        log = self._directory / "log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        self.url = f"http://127.0.0.1:{found['s3.port']}"
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                told = log.read_text()
                self.stop()
                raise RuntimeError(f"SeaweedFS did not start:\n{told}")
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(self.url, timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def stop(self) -> None:
        """End it and remove its files; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None
        for port in self._ports:  # the places of its sockets are fixed
            for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket.unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)
