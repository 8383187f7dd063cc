"""The write ids of a table: which jobs' files are part of it, in a few numbers.

The write id of a job is the version of its claim. The rules to compare two lists are those of Hive's
``TxnIdUtils``, and Hive's text form is for display: nothing here reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_ID = 2**63 - 1
"""What Hive prints if no write id is open: Java's largest long."""


@dataclass(frozen=True, slots=True)
class WriteIds:
    """All write ids up to `highest`, but for the `exceptions`, in ascending order."""

    highest: int
    exceptions: tuple[int, ...] = ()

    def __contains__(self, write_id: int) -> bool:
        return write_id <= self.highest and write_id not in self.exceptions

    def __str__(self) -> str:
        return f"{self.highest}:{','.join(map(str, self.exceptions))}"

    def covers(self, other: WriteIds) -> bool:
        """Whether each id of `other` is one of these."""
        return all(one not in other for one in self.exceptions) and all(
            one not in other for one in range(self.highest + 1, other.highest + 1)
        )

    def hive(self, table: str) -> str:
        """The list as Hive prints it, with all exceptions as open ids."""
        lowest = self.exceptions[0] if self.exceptions else _NO_ID
        return f"{table}:{self.highest}:{lowest}:{','.join(map(str, self.exceptions))}:"


def compare(one: WriteIds, other: WriteIds) -> int:
    """1 if `one` is more recent, -1 if `other` is, 0 if both show the same jobs, of one table."""
    for mine, theirs in zip(one.exceptions, other.exceptions, strict=False):
        if mine != theirs:
            return 1 if mine > theirs else -1
    if len(one.exceptions) == len(other.exceptions):
        return (one.highest > other.highest) - (one.highest < other.highest)
    if len(one.exceptions) > len(other.exceptions):
        return -compare(other, one)
    extra = other.exceptions[len(one.exceptions) :]
    if one.highest != extra[0] - 1:
        return 1 if one.highest > extra[0] - 1 else -1
    return 0 if extra == tuple(range(extra[0], other.highest + 1)) else -1
