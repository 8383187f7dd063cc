"""Stands before a PostgreSQL, to lose the answer to a COMMIT that has happened."""

from __future__ import annotations

from tests.servers.gate import Gate

COMMIT = b"COMMIT\x00\x00\x00B"
"""The end of the message Parse, with the statement, and the beginning of Bind: it is run then."""


class PostgresqlGate(Gate):
    """`commits` counts those that came; the answers to the numbers in `lose` are lost."""

    def __init__(self, server: int, lose: set[int]) -> None:
        self._lose = lose
        self.commits = 0
        super().__init__(server)

    def is_doomed(self, data: bytes) -> bool:
        if COMMIT not in data:
            return False
        self.commits += 1
        return self.commits in self._lose
