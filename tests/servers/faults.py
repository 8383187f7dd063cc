"""Faults that a server injects by itself: delay, throttling, requests and answers that are lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """What happens to a request."""

    NONE = "none"
    THROTTLED = "throttled"
    FAILED_BEFORE = "failed before"
    """An error is answered and nothing done."""
    FAILED_AFTER = "failed after"
    """It is done and an error answered."""
    LOST_ANSWER = "lost answer"
    """It is done and the connection closed."""


@dataclass
class Faults:
    """Which requests fail: each probability is of those whose name `hits`; a rate is of all.

    delay_seconds: how long any request takes more.
    requests_per_second: what exceeds this is throttled; as much as `burst` may come at once.
    """

    failed_before: float = 0.0
    failed_after: float = 0.0
    lost_answer: float = 0.0
    hits: Callable[[str], bool] = lambda name: name == "rename"
    delay_seconds: float = 0.0
    requests_per_second: float | None = None
    burst: float = 20.0
    retry_after_seconds: float | None = 1.0
    seed: int = 7
    injected: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._tokens = self.burst
        self._filled = time.monotonic()

    async def choose(self, name: str) -> Fault:
        """Wait as long as the request shall take, and say what happens to it."""
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        fault = self._choose(name)
        self.injected[fault] += 1
        return fault

    def _choose(self, name: str) -> Fault:
        if self.requests_per_second is not None and not self._take(self.requests_per_second):
            return Fault.THROTTLED
        if not self.hits(name):
            return Fault.NONE
        chance = self._random.random()
        for fault, part in (
            (Fault.FAILED_BEFORE, self.failed_before),
            (Fault.FAILED_AFTER, self.failed_after),
            (Fault.LOST_ANSWER, self.lost_answer),
        ):
            if chance < part:
                return fault
            chance -= part
        return Fault.NONE

    def _take(self, rate: float) -> bool:
        now = time.monotonic()
        self._tokens = min(self.burst, self._tokens + (now - self._filled) * rate)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
