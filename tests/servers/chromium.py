"""Headless Chromium, driven over its DevTools protocol: a page as a person's browser shows it.

The browser is in a package of npm, packed for Linux on x86-64 with the libraries that it needs, so
nothing of the system is used but Node.js, which unpacks it once.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import os
import re
import subprocess
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

PACKAGE = "@sparticuz/chromium@153.0.0"
ANSWER_SECONDS = 30.0
START_TRIES = 3  # one start in about 600 dies of SIGSEGV before it listens

_CACHE = Path(__file__).parents[2] / ".cache/browsers/chromium"
_FLAGS = (
    "--headless=shell",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_UNPACK = """
const zlib = require("zlib"), fs = require("fs"), { pipeline } = require("stream/promises");
(async () => {
  for (const name of fs.readdirSync(process.argv[1]))
    await pipeline(fs.createReadStream(process.argv[1] + "/" + name), zlib.createBrotliDecompress(),
      fs.createWriteStream(process.argv[2] + "/" + name.replace(/[.]br$/, "")));
})();
"""


_LOADED = """new Promise(done =>
  document.readyState == "complete" ? done() : addEventListener("load", done))"""


class Page:
    """One tab; `requests` are the URLs that it asked for beside its own."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.requests: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session: str | None = None

    async def attach(self) -> None:
        """Open a tab, and hear of its requests."""
        target = await self._call("Target.createTarget", url="about:blank")
        found = await self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = found["sessionId"]
        await self._call("Page.enable")
        await self._call("Network.enable")
        await self._call("Emulation.setScrollbarsHidden", hidden=True)

    async def show(self, file: Path, *, width: int, scheme: str, height: int = 900) -> None:
        """Load a page at a width, in CSS pixels, in the colours for ``light`` or ``dark``."""
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._call("Emulation.setEmulatedMedia", features=features)
        await self._call("Page.navigate", url=file.as_uri())
        await self.evaluate(_LOADED)
        self.requests = [url for url in self.requests if url != file.as_uri()]

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = await self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def picture(self) -> bytes:
        """The whole page as a PNG."""
        height = await self.evaluate("document.documentElement.scrollHeight")
        width = await self.evaluate("document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self._call(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(answer["data"])

    async def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = await self._socket.receive_json(timeout=ANSWER_SECONDS)
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            elif answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]


@contextmanager
def browser() -> Iterator[str]:
    """The address of a browser that ends with the block."""
    program = install()
    # Its other processes end a moment later, and write to the profile until then.
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process, address = _start(program, Path(profile))
        try:
            yield address
        finally:
            process.kill()
            process.wait(timeout=60)


@asynccontextmanager
async def open_page(address: str) -> AsyncIterator[Page]:
    """A new tab of the browser at an address."""
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(address, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        await page.attach()
        yield page


def install() -> Path:
    """The browser; it is installed once, whoever asks first."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    unpacked = _CACHE / "unpacked"
    with _locked(_CACHE / "lock"):
        done = _CACHE / "installed"
        if not done.exists() or done.read_text() != PACKAGE:
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."]
            _run([*command, PACKAGE])
            packed = _CACHE / "node_modules" / PACKAGE.rpartition("@")[0] / "bin"
            unpacked.mkdir(exist_ok=True)
            _run(["node", "-e", _UNPACK, str(packed), str(unpacked)])
            for name in ("al2023", "swiftshader", "fonts"):
                with tarfile.open(unpacked / f"{name}.tar") as archive:
                    archive.extractall(unpacked, filter="data")
            (unpacked / "chromium").chmod(0o755)
            done.write_text(PACKAGE)
    return unpacked / "chromium"


def _start(program: Path, profile: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A browser, and where it listens; one that dies as it starts is started again."""
    libraries = {"LD_LIBRARY_PATH": f"{program.parent}/lib:{program.parent}"}
    logs = [profile / f"log-{number}" for number in range(START_TRIES)]
    for log in logs:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *_FLAGS, f"--user-data-dir={log}.data", "about:blank"],
                env={**os.environ, **libraries, "FONTCONFIG_PATH": f"{program.parent}/fonts"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if (address := _address(process, log)) is not None:
            return process, address
        process.kill()
        process.wait(timeout=60)
    raise RuntimeError("Chromium does not start:\n" + "\n".join(log.read_text() for log in logs))


def _address(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """Where the browser listens, once it does; None if it has ended, or takes too long."""
    for _ in range(round(ANSWER_SECONDS * 20)):
        if found := re.search(r"listening on (ws://\S+)", log.read_text()):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    return None


def _run(command: list[str]) -> None:
    run = subprocess.run(command, cwd=_CACHE, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{command[:2]} fails, so {PACKAGE} cannot be installed: {run.stderr}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
