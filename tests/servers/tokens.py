"""Where credentials get their tokens: Google's OAuth and metadata servers, and Azure's managed identity.

One answer has what each of them says, and each client reads its part. It runs on a thread of the test's
process.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SECONDS = 86_400
PAGE = b"<html><body>Log in to the network</body></html>"


class TokenServer:
    """Issues ``token-1``, ``token-2``... at any path, of which the last is valid.

    `bodies` are what it answers before that, one a request, as a network does that wants a login first.
    """

    def __init__(self) -> None:
        self.issued = 0
        self.bodies: list[bytes] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.authority = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.authority}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def is_valid(self, authorization: str | None) -> bool:
        """Whether a request with this header has the token that was issued last."""
        return authorization == f"Bearer token-{self.issued}"

    def revoke(self) -> None:
        """Let no token be valid that was issued up to now."""
        self.issued += 1

    def service_account(self) -> dict[str, str]:
        """A key that Google's client exchanges for tokens here."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return {
            "type": "service_account",
            "client_email": "committer@project",
            "private_key_id": "7",
            "private_key": key.private_bytes(*kinds, serialization.NoEncryption()).decode(),
            "token_uri": f"{self.url}/token",
        }

    def _answer(self, path: str) -> tuple[str, bytes]:
        if self.bodies:
            return "text/html", self.bodies.pop(0)
        with self._lock:
            self.issued += not path.endswith("recursive=true")  # which asks whose the token will be
        answer = {
            "access_token": f"token-{self.issued}",
            "token_type": "Bearer",
            "expires_in": SECONDS,
            "expires_on": str(int(time.time()) + SECONDS),
            "resource": "https://storage.azure.com",
            "email": "committer@project",
            "scopes": ["https://www.googleapis.com/auth/devstorage.full_control"],
        }
        return "application/json", json.dumps(answer).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kind, body = answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Metadata-Flavor", "Google")
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
