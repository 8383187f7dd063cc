"""A real Prometheus on this machine, from Debian's package, which scrapes what a test names."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.servers import debian
from tests.servers.ports import free_port

CACHE = Path(__file__).parents[2] / ".cache" / "servers" / "prometheus"
START_SECONDS = 120.0

_CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: ray
    static_configs: [{{targets: {targets}}}]
"""


class Prometheus:
    """Asks the server at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that a query finds now; `ValueError` with Prometheus's reason if it is wrong."""
        arguments = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query?{arguments}", timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as e:
            with e:
                raise ValueError(json.load(e)["error"]) from e

    def value(self, expression: str) -> float:
        """The value of a query that finds one sample; 0 if it finds none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else 0.0


@contextlib.contextmanager
def prometheus_server(targets: Sequence[str]) -> Iterator[Prometheus]:
    """A server for the length of a block that scrapes `targets` (``host:port``) each second."""
    binary = install()
    url = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        directory = Path(name)
        configuration = directory / "prometheus.yml"
        configuration.write_text(_CONFIGURATION.format(targets=json.dumps(list(targets))))
        command = [
            str(binary),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={url.removeprefix('http://')}",
        ]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
        try:
            _wait(process, url, directory / "log")
            yield Prometheus(url)
        finally:
            process.kill()
            process.wait()


def install(cache: Path = CACHE) -> Path:
    """Put the server's program into `cache`, once for all processes, and return where it is."""
    cache.mkdir(parents=True, exist_ok=True)
    binary = cache / "prometheus"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                unpacked = debian.unpack(["prometheus"], Path(scratch))
                shutil.move(unpacked / "usr" / "bin" / "prometheus", binary)
    return binary


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Prometheus did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.1)
