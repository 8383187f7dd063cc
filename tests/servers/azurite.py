"""Azurite, Microsoft's emulator of blob storage: a real account without a hierarchical namespace.

It has no DFS calls. Installed from npm with the version of Node.js that it asks for.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.servers.ports import free_port

PACKAGES = ("azurite@3.37.0", f"node-linux-{ {'aarch64': 'arm64'}.get(platform.machine(), 'x64') }@22")
ACCOUNT = "flataccount"
KEY = "a2V5IG9mIHRoZSBmbGF0IGFjY291bnQgb2YgdGhlIHRlc3RzCg=="
START_SECONDS = 120.0

_CACHE = Path(__file__).parents[2] / ".cache/servers/azurite"


class Azurite:
    """One blob service with one account, in memory."""

    def __init__(self) -> None:
        self.port = 0
        self._directory = tempfile.TemporaryDirectory(prefix="azurite-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
            f"BlobEndpoint=http://127.0.0.1:{self.port}/{ACCOUNT};"
        )

    def start(self) -> None:
        """Install it if need be, start it, and wait until it answers."""
        node, script = install()
        self.port = free_port()
        arguments = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--silent"]
        log = Path(self._directory.name, "log")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [node, script, *arguments, "--location", self._directory.name, "--skipApiVersionCheck"],
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Azurite does not start: {log.read_text()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it; idempotent."""
        if self._process is not None:
            self._process.kill()  # asked to end, it waits a minute for connections that are kept
            self._process.wait(timeout=60)
            self._process = None
        self._directory.cleanup()

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/", timeout=5):
                return True
        except URLError as e:
            return hasattr(e, "code")  # refused, but by a server
        except OSError:
            return False


def install() -> tuple[str, str]:
    """The paths of Node.js and of Azurite's blob service; installs both once, whoever asks first."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    node = _CACHE / "node_modules" / PACKAGES[1].partition("@")[0] / "bin/node"
    with _locked(_CACHE / "lock"):
        done = _CACHE / "installed"
        if not done.exists() or done.read_text() != " ".join(PACKAGES):
            # An npm that was killed leaves half of a tree, which the next one takes for whole.
            shutil.rmtree(_CACHE / "node_modules", ignore_errors=True)
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."]
            run = subprocess.run(
                [*command, *PACKAGES], cwd=_CACHE, capture_output=True, text=True, check=False
            )
            if run.returncode:
                raise RuntimeError(f"npm cannot install {PACKAGES}: {run.stderr}")
            done.write_text(" ".join(PACKAGES))
    return str(node), str(_CACHE / "node_modules/azurite/dist/src/blob/main.js")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
