"""The pause before a request is repeated: longer each time, and random, so that requests spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import SystemRandom
from typing import TypeVar

from ray_committer.errors import StoreUnavailableError, ThrottledError

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 10.0
ATTEMPTS = 8
RETRY_SECONDS = 300.0
"""How long a request is repeated unless the caller says otherwise."""

T = TypeVar("T")

_random = SystemRandom()


def backoff_seconds(attempt: int) -> float:
    """Return the pause after failed attempt number `attempt`, from 1; 0 gives the shortest pause."""
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt, 10))
    return longest * _random.uniform(0.5, 1.0)


def until_answered(request: Callable[[], T], retry_seconds: float = RETRY_SECONDS) -> T:
    """Make a harmless request until the store answers it.

    The last of `ATTEMPTS`, or the last one in `retry_seconds`, raises its error. This is for requests
    that no `GuardedStore` repeats, such as those of a store that is being opened.
    """
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS):
        try:
            return request()
        except (ThrottledError, StoreUnavailableError) as e:
            asked = e.retry_after_seconds if isinstance(e, ThrottledError) else None
            pause = max(asked or 0.0, backoff_seconds(attempt))
            if time.monotonic() - started + pause > retry_seconds:
                raise
        time.sleep(pause)
    return request()
