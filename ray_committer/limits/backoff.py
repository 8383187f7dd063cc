"""The pause before a request is repeated: longer each time, and random, so that requests spread."""

from __future__ import annotations

from random import SystemRandom

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 10.0

_random = SystemRandom()


def backoff_seconds(attempt: int) -> float:
    """Return the pause after failed attempt number `attempt`, from 1; 0 gives the shortest pause."""
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt, 10))
    return longest * _random.uniform(0.5, 1.0)
