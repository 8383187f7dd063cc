"""Stands before a PostgreSQL, to lose the answer to a COMMIT that has happened."""

from __future__ import annotations

import contextlib
import socket
import threading

COMMIT = b"COMMIT\x00\x00\x00B"
"""The end of the message Parse, with the statement, and the beginning of Bind: it is run then."""


class PostgresqlGate:
    """Forwards connections at `port` to the server's port, as long as the block lasts.

    `commits` counts those that came; the answers to the numbers in `lose` are lost, with the connection.
    """

    def __init__(self, server: int, lose: set[int]) -> None:
        self._server = server
        self._lose = lose
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port = self._listener.getsockname()[1]
        self.commits = 0

    def __enter__(self) -> PostgresqlGate:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            _shut(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                self._open |= {client, server}
                doomed = threading.Event()
                for target in (self._requests, self._answers):
                    threading.Thread(target=target, args=(client, server, doomed), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if COMMIT in data:
                    self.commits += 1
                    if self.commits in self._lose:
                        doomed.set()
                server.sendall(data)
        self._end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if doomed.is_set():
                    break
                client.sendall(data)
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        for each in sockets:
            _shut(each)
            self._open.discard(each)


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
