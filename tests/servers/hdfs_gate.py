"""Stands before the RPC port of a NameNode, to hold requests up and to lose answers.

A client that closes a file asks the NameNode whether the DataNode has reported it, at once and then half
a second later. On one machine the report loses that race, so the question is held for a moment: a file
then takes 10 milliseconds.
"""

from __future__ import annotations

import time

from tests.servers.gate import Gate

HELD_SECONDS = 0.006


class HdfsGate(Gate):
    """`authority` is its address in URLs."""

    def __init__(self, port: int) -> None:
        self._doomed: list[bytes] = []
        super().__init__(port)
        self.authority = f"127.0.0.1:{self.port}"

    def lose_answer(self, method: str) -> None:
        """Break the connection of the next request for `method` when its answer is there."""
        self._doomed.append(_marker(method))

    def lose_no_more(self) -> None:
        """Let every answer through again, also those whose requests have not come yet."""
        self._doomed.clear()

    def is_doomed(self, data: bytes) -> bool:
        if HELD in data:
            time.sleep(HELD_SECONDS)
        marker = next((each for each in self._doomed if each in data), None)
        if marker is not None:
            self._doomed.remove(marker)
        return marker is not None


def _marker(method: str) -> bytes:
    """How a request names its method: field 1 of a protobuf message, a string."""
    return b"\x0a" + bytes([len(method)]) + method.encode()


HELD = _marker("complete")
