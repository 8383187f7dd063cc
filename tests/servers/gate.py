"""Stands before a server, to lose the answers to requests that have come."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from typing import Self


class Gate(ABC):
    """Forwards connections at its own `port` to that of a server, as long as it is open.

    `is_doomed` is asked before a piece of a request is sent on. The answer to a doomed one is lost, with
    the connection; `lost` counts these.
    """

    def __init__(self, server: int) -> None:
        self._server = ("127.0.0.1", server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Break all connections."""
        for each in (self._listener, *self._open):
            _shut(each)

    @abstractmethod
    def is_doomed(self, data: bytes) -> bool:
        """Whether the answer to a request with this piece is to be lost."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {client, server}
                doomed = threading.Event()
                for target in (self._forward_requests, self._forward_answers):
                    threading.Thread(target=target, args=(client, server, doomed), daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self.is_doomed(data):
                    doomed.set()
                server.sendall(data)
        self._end(client, server)

    def _forward_answers(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if doomed.is_set():
                    self.lost += 1
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
