"""Stands before the RPC port of a NameNode, to hold requests up and to lose answers.

A client that closes a file asks the NameNode whether the DataNode has reported it, at once and then half
a second later. On one machine the report loses that race, so the question is held for a moment: a file
then takes 10 milliseconds.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

HELD_METHOD = "complete"
HELD_SECONDS = 0.006


class HdfsGate:
    """Forwards connections at `authority` to the NameNode's `port`, as long as it is open."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.authority = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._doomed: list[bytes] = []
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self, method: str) -> None:
        """Break the connection of the next request for `method` when its answer is there."""
        self._doomed.append(_marker(method))

    def lose_no_more(self) -> None:
        """Let every answer through again, also those whose requests have not come yet."""
        self._doomed.clear()

    def close(self) -> None:
        """Break all connections."""
        for each in (self._listener, *self._open):
            _shut(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {client, server}
                doomed = threading.Event()
                for target in (self._forward_requests, self._forward_answers):
                    threading.Thread(target=target, args=(client, server, doomed), daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        held = _marker(HELD_METHOD)
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if held in data:
                    time.sleep(HELD_SECONDS)
                if marker := next((each for each in self._doomed if each in data), None):
                    self._doomed.remove(marker)
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


def _marker(method: str) -> bytes:
    """How a request names its method: field 1 of a protobuf message, a string."""
    return b"\x0a" + bytes([len(method)]) + method.encode()


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
