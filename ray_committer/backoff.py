"""How long to wait before a request is made again: longer each time, and never the same for all."""

from __future__ import annotations

from random import SystemRandom

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 10.0

_random = SystemRandom()


def backoff_seconds(attempt: int) -> float:
    """The pause after failed attempt number `attempt`, from 1; the shortest is that of 0."""
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt, 10))
    return longest * _random.uniform(0.5, 1.0)
