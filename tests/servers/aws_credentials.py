"""The servers of this machine from which an AWS client gets credentials, on one address.

A container's agent, an instance's metadata service (version 2), and the portal of IAM Identity Center.
Each answer has another access key, whose name says where it is from: ``instance-1``, ``instance-2``.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTAINER, INSTANCE, PORTAL = "/container", "/latest/meta-data/iam/security-credentials/", "/federation"


class CredentialServers:
    """Answers between `start` and `stop`. Keys are valid for so many `seconds` after they were asked
    for; clients get new ones some minutes before that. `token` is what a container must send."""

    def __init__(self) -> None:
        self.seconds, self.token = 3600.0, "the token"
        self.asked: Counter[str] = Counter()

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(handler) -> None:  # noqa: N805
                handler.reply(b"session" if handler.path == "/latest/api/token" else None)

            def do_GET(handler) -> None:  # noqa: N805
                if handler.path == INSTANCE:
                    handler.reply(b"the-role")
                elif handler.path == f"{INSTANCE}the-role":
                    is_told = handler.headers.get("X-aws-ec2-metadata-token") == "session"
                    handler.reply(self._keys("instance") if is_told else None)
                elif handler.path == CONTAINER:
                    is_told = handler.headers.get("Authorization") == self.token
                    handler.reply(self._keys("container") if is_told else None)
                elif handler.path.startswith(PORTAL):
                    handler.reply(self._role_credentials())
                else:
                    handler.reply(None)

            def reply(handler, body: bytes | None) -> None:  # noqa: N805
                handler.send_response(404 if body is None else 200)
                handler.send_header("Content-Type", "application/json")
                handler.end_headers()
                handler.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> CredentialServers:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _name(self, kind: str) -> str:
        self.asked[kind] += 1
        return f"{kind}-{self.asked[kind]}"

    def _keys(self, kind: str) -> bytes:
        name, ends = self._name(kind), datetime.now(UTC) + timedelta(seconds=self.seconds)
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": name,
                "SecretAccessKey": "secret",
                "Token": f"token of {name}",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ).encode()

    def _role_credentials(self) -> bytes:
        name, ends = self._name("portal"), datetime.now(UTC) + timedelta(seconds=self.seconds)
        keys = {
            "accessKeyId": name,
            "secretAccessKey": "secret",
            "sessionToken": f"token of {name}",
            "expiration": int(ends.timestamp() * 1000),
        }
        return json.dumps({"roleCredentials": keys}).encode()
