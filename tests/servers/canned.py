"""A server whose answers are given: what a server of a store's API answers wrongly, and servers without
end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store


class Reply(NamedTuple):
    """An answer; an `endless` one repeats its body until the client goes."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""
    endless: bool = False


Answer = Callable[[str, str], Reply]
"""Answers a request by its method, and its path with the query."""


class CannedServer:
    """Answers what `answer` says, but what a store asks when it is opened; on threads of the test."""

    def __init__(self) -> None:
        self.answer: Answer = lambda *_: Reply(404)
        self.requests: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spec(self, scheme: str) -> StoreSpec:
        """A store of each kind that has requests over HTTP, on this server."""
        options: dict[str, tuple[str, dict[str, Any]]] = {
            "s3": ("bucket", {"endpoint_url": self.url, "key": "k", "secret": "s", "region": "r"}),
            "gs": ("bucket", {"endpoint_url": self.url, "token": "anon"}),
            "abfs": (
                "lake@acct.dfs.core.windows.net",
                {"endpoint": f"{self.url}/acct", "account_key": "a2V5"},
            ),
            "webhdfs": ("host", {"webhdfs_url": self.url}),
        }
        return StoreSpec(scheme, *options[scheme])

    def open(self, scheme: str) -> StoreOperations:
        return open_store(self.spec(scheme), retry_seconds=0.0)

    def reply(self, method: str, path: str) -> Reply:
        self.requests.append((method, path))
        if "storageLayout" in path:
            return Reply(body=b"{}")
        if method == "HEAD" and path.endswith("resource=filesystem"):
            return Reply(headers={"x-ms-namespace-enabled": "true"})
        return self.answer(method, path)


def _handler(server: CannedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = server.reply(self.command, self.path)
            self.send_response(found.status)
            own = {"x-amz-request-id": "1", "x-ms-request-id": "1", **found.headers}
            for name, value in own.items():
                if value:
                    self.send_header(name, value)
            if found.endless:
                self.close_connection = True
            elif "Content-Length" not in own:
                self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            with suppress(ConnectionError):
                if self.command != "HEAD":
                    self.wfile.write(found.body)
                while found.endless:
                    self.wfile.write(found.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
